"""The asset graph: experiments as Dagster components. The only room, with cli, that knows Dagster."""
