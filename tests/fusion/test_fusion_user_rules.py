"""Rules from a user's file: the three ways to write one, and every way in which a file can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from fusion_graphs import TARGET, Net

from workbench.errors import RuleError
from workbench.fusion import builtin_rules, load_rules, plan, rule
from workbench.graph import Graph

GOOD = '''
from workbench.fusion import Candidate, Rule, builtin_rules, rule


class TanhRelu(Rule):
    name, kind, summary = "tanh_relu", "vertical", "tanh and the relu that reads it"

    def propose(self, graph):
        for node in graph.nodes:
            for user in graph.successors(node.id):
                if (node.op, user.op) == ("tanh", "nn.relu"):
                    yield Candidate(self.name, self.kind, (node.id, user.id), "my reason")


class Named(Rule):
    kind, summary = "vertical", "made twice with other names"

    def __init__(self, name="named"):
        self.name = name

    def propose(self, graph):
        return ()


Named.name = "named"
second = Named("second")


@rule(name="pairs", kind="horizontal")
def pairs(graph):
    """Operators that read the same input."""
    for value in graph.inputs:
        users = graph.users(value)
        if len(users) > 1:
            yield {user.id for user in users}
'''


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "my_rules.py"
    path.write_text(text)
    return path


def _graph() -> Graph:
    net = Net()
    x = net.input("x", 64, 64)
    return net.graph(net.op("nn.relu", net.op("tanh", x, name="t"), name="r"), net.op("exp", x, name="e"))


def test_classes_instances_and_functions_are_loaded(tmp_path: Path):
    rules = load_rules(_file(tmp_path, GOOD))
    assert [loaded.name for loaded in rules] == ["tanh_relu", "named", "second", "pairs"]
    assert rules[3].kind == "horizontal"
    assert rules[3].summary == "Operators that read the same input."


def test_loaded_rules_decide_a_plan(tmp_path: Path):
    rules = load_rules(_file(tmp_path, GOOD))
    made = plan(_graph(), TARGET, rules=rules)
    group = made.group_of("t")
    assert (group.nodes, group.rule, group.reason.partition(";")[0]) == (("t", "r"), "tanh_relu", "my reason")
    assert made.rules == ("tanh_relu", "named", "second", "pairs")


def test_a_user_s_rule_before_the_built_in_ones_has_its_candidate(tmp_path: Path):
    made = plan(_graph(), TARGET, rules=(*load_rules(_file(tmp_path, GOOD)), *builtin_rules()))
    assert {d.rule for d in made.decisions if d.nodes == ("t", "r")} == {"tanh_relu"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "defines no rule"),
        ("from workbench.fusion.rules.gelu import Gelu\n", "defines no rule"),
        ("import no_such_module\n", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def broken(:\n", "cannot be imported: SyntaxError"),
        ("raise ValueError('two\\nlines')\n", "cannot be imported: ValueError: two lines"),
        (
            "from workbench.fusion import Rule\nclass Mine(Rule):\n    kind = 'vertical'\n"
            "    def propose(self, graph): return ()\n",
            "lacks name, summary",
        ),
        (
            "from workbench.fusion import Rule\nclass Mine(Rule):\n    name = kind = summary = 'vertical'\n",
            "cannot be made without arguments",
        ),
        (
            "from workbench.fusion import rule\n@rule(name='a')\ndef f(g): return ()\n"
            "@rule(name='a')\ndef h(g): return ()\n",
            "two rules named a",
        ),
        ("from workbench.fusion import rule\n@rule(kind='diagonal')\ndef f(g): return ()\n", "give 'vertical'"),
    ],
)
def test_a_wrong_file_gives_one_clear_line(tmp_path: Path, text: str, message: str):
    path = _file(tmp_path, text)
    with pytest.raises(RuleError) as caught:
        load_rules(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(RuleError, match=r"nothing\.py does not exist"):
        load_rules(tmp_path / "nothing.py")


def test_a_rule_that_raises_is_named():
    @rule(name="bad")
    def bad(graph):
        yield {"t", "r"}
        raise KeyError("lv99")

    with pytest.raises(RuleError, match="rule 'bad' failed on net: KeyError: 'lv99'") as caught:
        plan(_graph(), TARGET, rules=[bad])
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_rule_that_gives_nonsense_is_named():
    class Nonsense(builtin_rules()[0].__class__):
        name = "nonsense"

        def propose(self, graph):
            return [("t", "r")]

    with pytest.raises(RuleError, match="rule 'nonsense' proposed a tuple"):
        plan(_graph(), TARGET, rules=[Nonsense()])


def test_a_set_with_an_unknown_node_is_refused_in_the_decisions():
    @rule(name="typo")
    def typo(graph):
        yield {"t", "rr"}

    made = plan(_graph(), TARGET, rules=[typo])
    assert [group.nodes for group in made.groups] == [("t",), ("r",), ("e",)]
    assert any("unknown node: net has no node rr" in decision.reason for decision in made.decisions)
