"""Flows with codecs that ask one whose answers are sealed under a key of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler
from flowguard.codecs import About, Compressed, Encrypted
from flowguard.group import GroupEnd

LABS = "alias/labs"


class Sample(BaseModel):
    sample_id: str


class Traced:
    """A codec of a user's, which may open anything."""

    def seal(self, data: bytes, about: About) -> bytes:
        return data

    def open(self, sealed: bytes, about: About) -> bytes:
        return sealed


class Analyse(Stage[Sample], name="analyse", inbox="analyse"):
    def handle(self, sample: Sample, step: Step) -> Outcome:
        return Done()


class Labs(Flow, name="labs", object_id="sample_id", codec=Encrypted(LABS)):
    stages = (Analyse,)


class Ask(Stage[Sample], name="ask", inbox="ask", then="told"):
    def handle(self, sample: Sample, step: Step) -> Outcome:
        return Told.when_all(lab=step.ask(Labs, sample), within=timedelta(hours=1))


class AskAll(Stage[Sample], name="ask-all", inbox="ask-all", then="told-all"):
    def handle(self, sample: Sample, step: Step) -> Outcome:
        return ToldAll.when_group(step.group(Labs, [("a", sample)]), within=timedelta(hours=1))


class AskTraced(Stage[Sample], name="ask-traced", inbox="ask-traced", then="told"):
    def handle(self, sample: Sample, step: Step) -> Outcome:
        return Told.when_all(lab=step.ask(Unknown, sample), within=timedelta(hours=1))


class Told(Stage[dict[str, Any]], name="told", inbox="told"):
    def handle(self, lab: dict[str, Any], step: Step) -> Outcome:
        return Done()


class ToldAll(Stage[GroupEnd], name="told-all", inbox="told-all"):
    def handle(self, end: GroupEnd, step: Step) -> Outcome:
        return Done()


class Names(Flow, name="names", object_id="sample_id", answers="answers", codec=Encrypted("alias/n", opens=(LABS,))):
    stages = (Ask, Told)


class Lacks(Flow, name="lacks", object_id="sample_id", answers="answers", codec=Encrypted("alias/patients")):
    stages = (Ask, Told)


class LacksToo(Flow, name="lacks-too", object_id="sample_id", answers="answers", codec=Encrypted("alias/patients")):
    stages = (AskAll, ToldAll)


class Unknown(Flow, name="unknown", object_id="sample_id", answers="answers", codec=Traced()):
    stages = (Ask, Told)


class Alike(Flow, name="alike", object_id="sample_id", answers="answers", codec=Traced()):
    stages = (AskTraced, Told)


class Lean(Flow, name="lean", object_id="sample_id", answers="answers", codec=Compressed()):
    stages = (Ask, Told)


class Bare(Flow, name="bare", object_id="sample_id", answers="answers"):
    stages = (AskAll, ToldAll)


names = lambda_handler(Names)
lacks = lambda_handler(Lacks)
lacks_too = lambda_handler(LacksToo)
unknown = lambda_handler(Unknown)
alike = lambda_handler(Alike)
lean = lambda_handler(Lean)
bare = lambda_handler(Bare)
