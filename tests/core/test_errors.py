import inspect

from rl_assets.core import errors


def test_the_tree_in_the_docstring_is_the_tree():
    drawn, path = {}, []
    lines = [line for line in errors.__doc__.splitlines() if "Error" in line.split(" ")[0] or "──" in line]
    for line in lines:
        before, _, text = line.rpartition("──")
        depth = (len(before) + 3) // 4 if before else 0
        path = [*path[:depth], text.split()[0]]
        drawn[path[-1]] = path[-2] if depth else "Exception"
    classes = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}
    assert {name: kind.__base__.__name__ for name, kind in classes.items()} == drawn
