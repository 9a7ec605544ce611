"""The web application with the pages of the inspector, made of what it reads and a clock."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlencode

from flask import Flask, Response, render_template, request
from jinja2 import StrictUndefined
from markupsafe import Markup, escape
from werkzeug.exceptions import BadRequest, Forbidden, HTTPException, NotFound

from flowguard.aws.dead_letter_queue import Unusable, explained
from flowguard.aws.history_rows import MOST_ROWS, ROWS_SHOWN
from flowguard.aws.run_pages import NoCursor, Wanted
from flowguard.deploy.flow_graph import graph_of
from flowguard.errors import FlowguardError
from flowguard.flow import AnyFlow
from flowguard.names.ids import name_problem
from flowguard.operate.history_facts import happened
from flowguard.operate.moments import duration, moment, seconds_in
from flowguard.operate.run_rows import quiet_since
from flowguard.protocol.run import RunItem, Status
from flowguard.text.printable import bounded, printable
from flowguard.ui.changes import Change, Changes
from flowguard.ui.graph_picture import described, graph_picture
from flowguard.ui.guards import HEADERS, is_own_token, request_problem
from flowguard.ui.inspected import Inspected
from flowguard.ui.timeline import time_line
from flowguard.wire.notification import to_json
from flowguard.worker.dead_letters import Letter

LARGEST_FORM: Final = 16_384
"""Bytes of a form that is read."""

LONGEST_VALUE: Final = 20_000
"""Characters of a payload that is shown."""

TOLD: Final = (ROWS_SHOWN, 1_000, MOST_ROWS)
"""How many rows of a full history a page shows, and then on request."""

COUNTED: Final = (10_000, 100_000, 1_000_000)
"""Items that a page with numbers may read: the first of these, and more where somebody asks for it."""

_STYLE: Final = files(__package__) / "style.css"
_FILTERS: Final = ("flow", "status", "stage", "older", "quiet", "group")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


def inspector(
    inspected: Inspected, hosts: frozenset[str], *, changes: Changes | None = None, token: str | None = None
) -> Flask:
    """Build the application. It answers requests to one of ``hosts``, and changes nothing without ``changes``.

    ``token`` is what a form that changes something must carry; without one it is drawn anew.
    """
    app = Flask(__package__, static_folder=None)
    app.config.update(MAX_CONTENT_LENGTH=LARGEST_FORM, MAX_FORM_MEMORY_SIZE=LARGEST_FORM)
    app.jinja_options = {"undefined": StrictUndefined, "finalize": _printable, "trim_blocks": True,
                         "lstrip_blocks": True}  # fmt: skip
    app.jinja_env.filters.update(cut=_cut, times=_times, number="{:,}".format, json=_json, happened=happened)
    pages = _Pages(inspected, changes, token if token is not None else secrets.token_urlsafe(32))
    app.jinja_env.globals.update(inspected=inspected, token=pages.token, changes=changes is not None, link=link)

    @app.before_request
    def refuse() -> None:
        if problem := request_problem(dict(request.headers), hosts):
            raise Forbidden(problem)

    @app.after_request
    def protect(answer: Response) -> Response:
        answer.headers.update(HEADERS)
        return answer

    app.register_error_handler(HTTPException, _refused)
    app.register_error_handler(FlowguardError, _failed)
    for path, view in pages.views().items():
        app.add_url_rule(path, view.__name__, view)
    for path, view in pages.forms().items():
        app.add_url_rule(path, view.__name__, view, methods=["POST"])
    return app


@dataclass(frozen=True)
class _Pages:
    """What is at each path."""

    inspected: Inspected
    changes: Changes | None
    token: str

    def views(self) -> Mapping[str, Callable[[], Any]]:
        return {
            "/": self.runs,
            "/run": self.run,
            "/waits": self.waits,
            "/flows": self.flows,
            "/letters": self.letters,
            "/style.css": style,
        }

    def forms(self) -> Mapping[str, Callable[[], Any]]:
        return {
            "/run/cancel": self.cancel,
            "/run/retry": self.retry,
            "/run/again": self.again,
            "/letters/redrive": self.redrive,
        }

    # -- looking

    def runs(self) -> Any:
        given = _given(*_FILTERS)
        status = given["status"].upper()
        if status and status not in list(Status):
            raise BadRequest(f"The status is none of {', '.join(Status)}.")
        listed = self._list(given, Status(status) if status else None)
        return render_template("runs.html", listed=listed, given=given, statuses=list(Status))

    def waits(self) -> Any:
        given = _given("flow", "stage")
        listed = self._list(given, Status.WAITING, lambda item: item.wait is not None and item.wait.end is None)
        return render_template("waits.html", listed=listed, given=given)

    def _list(
        self, given: Mapping[str, str], status: Status | None, also: Callable[[RunItem], bool] = lambda item: True
    ) -> Any:
        for name in ("flow", "stage"):
            if given[name] and (problem := name_problem(given[name])):
                raise BadRequest(f"The {name} {problem}.")
        wanted = Wanted(given["flow"] or None, status, given["stage"] or None)
        older, quiet = (_seconds(name, given.get(name, "")) for name in ("older", "quiet"))
        now = self.inspected.clock.now()

        def passes(item: RunItem) -> bool:
            since = quiet_since(item, now)
            return (
                (older is None or now - item.requested_at > older * 1000)
                and (quiet is None or (since is not None and now - since > quiet * 1000))
                and also(item)
            )

        try:
            runs = self.inspected.runs(wanted, passes, request.args.get("after") or None, given.get("group") or None)
        except NoCursor as error:
            raise BadRequest(f"This is no place to go on: {error}.") from None
        return runs

    def run(self) -> Any:
        flow, object_id = self._named(request.args)
        most = request.args.get("history", TOLD[0], type=int)
        pair = self.inspected.run(flow, object_id, most if most in TOLD else TOLD[0])
        if pair is None:
            raise NotFound(f"There is no run of {bounded(object_id)} in flow {bounded(flow)}.")
        seen, facts = pair
        line = time_line(seen, self.inspected.clock.now())
        history = facts["history"] if seen.item.full_history else []
        more = [count for count in TOLD if count > most] if facts["history_goes_on"] else []
        known = self.inspected.flows.get(flow)
        return render_template("run.html", facts=facts, line=line, flow=known, told=history, more=more)

    def flows(self) -> Any:
        name, known = request.args.get("flow", ""), self.inspected.flows
        if not name:
            return render_template("flows.html", known=known)
        flow = self._known(name)
        most = request.args.get("read", COUNTED[0], type=int)
        traffic = self.inspected.traffic(name, most if most in COUNTED else COUNTED[0])
        graph = graph_of(flow)
        picture = graph_picture(graph, traffic)
        more = [count for count in COUNTED if count > traffic.read] if not traffic.is_whole else []
        lines = list(described(picture))
        paused = [(pause, moment(pause.since, self.inspected.clock.now())) for pause in self.inspected.pauses(name)]
        return render_template(
            "flow.html", graph=graph, picture=picture, traffic=traffic, more=more, lines=lines, paused=paused
        )

    def letters(self) -> Any:
        queue, queues = request.args.get("queue", ""), self.inspected.dead_letter_queues()
        if not queue:
            return render_template("queues.html", queues=queues)
        self._check_queue(queue)
        page = self.inspected.letters(queue)
        now = self.inspected.clock.now()
        refused = itertools.repeat(None) if self.changes is None else self.inspected.refusals(page.letters)
        rows = [
            (_of_letter(letter, now), self.inspected.payload_of(letter), why)
            for letter, why in zip(page.letters, refused, strict=False)
        ]
        return render_template("letters.html", page=page, rows=rows, name=queue)

    # -- changing

    def cancel(self) -> Any:
        with self._changing() as changes:
            flow, object_id = self._of_known()
            why = request.form.get("why", "").strip()
            if not why:
                raise BadRequest("Say why the run is cancelled; its error will have that text.")
            return self._done("Cancel", changes.cancel(flow, object_id, why), link("/run", flow.name, object_id))

    def retry(self) -> Any:
        with self._changing() as changes:
            flow, object_id = self._of_known()
            return self._done("Retry", changes.retry(flow, object_id), link("/run", flow.name, object_id))

    def again(self) -> Any:
        with self._changing() as changes:
            flow, object_id = self._of_known()
            return self._done("Begin anew", changes.again(flow, object_id), link("/run", flow.name, object_id))

    def redrive(self) -> Any:
        with self._changing() as changes:
            queue = request.form.get("queue", "")
            self._check_queue(queue)
            flow = self.inspected.flows.get(request.form.get("flow", ""))
            done = changes.redrive(queue, request.form.get("id", ""), flow)
            return self._done("Redrive", done, link("/letters", queue=queue))

    @contextmanager
    def _changing(self) -> Iterator[Changes]:
        """Give what a change needs. Refuses what did not come from a form of this process."""
        if self.changes is None:
            raise Forbidden("The inspector is read only. Start it with --allow-changes to change something.")
        if not is_own_token(request.form.get("token", ""), self.token):
            raise Forbidden("The form is of another start of the inspector. Open its page again.")
        with explained("AWS"):
            yield self.changes

    def _done(self, what: str, change: Change, back: str) -> Any:
        return render_template("done.html", what=what, change=change, back=back), 200 if change.is_done else 409

    def _named(self, given: Mapping[str, str]) -> tuple[str, str]:
        flow, object_id = given.get("flow", ""), given.get("object", "")
        for kind, text in (("flow", flow), ("object", object_id)):
            if problem := name_problem(text):
                raise NotFound(f"There is no such run: the {kind} {problem}.")
        return flow, object_id

    def _of_known(self) -> tuple[AnyFlow, str]:
        name, object_id = self._named(request.form)
        return self._known(name), object_id

    def _known(self, name: str) -> AnyFlow:
        if name not in self.inspected.flows:
            raise NotFound(f"No class of flow {bounded(name)} is known. Start the inspector with its MODULE:FLOW.")
        return self.inspected.flows[name]

    def _check_queue(self, queue: str) -> None:
        if queue not in self.inspected.dead_letter_queues():
            raise NotFound(f"Queue {bounded(queue)} is none of those that the inspector was started with.")


def style() -> Response:
    """Answer the style sheet."""
    return Response(_STYLE.read_text(encoding="utf-8"), mimetype="text/css")


def link(path: str, flow: str | None = None, object_id: str | None = None, **more: Any) -> str:
    """Return the address of a page, whatever is in the names. What is empty is left out."""
    named = {"flow": flow, "object": object_id, **more}
    query = urlencode({name: value for name, value in named.items() if value}, errors="surrogatepass")
    return f"{path}?{query}" if query else path


def _refused(error: HTTPException) -> Any:
    return render_template("problem.html", what=error.name, why=error.description or ""), error.code or 500


def _failed(error: FlowguardError) -> Any:
    why = error.problem if isinstance(error, Unusable) else str(error)
    subject, fix = (error.what, error.fix) if isinstance(error, Unusable) else ("This cannot be shown", "")
    return render_template(
        "problem.html", what=bounded(subject), why=f"{bounded(why)}" + (f". {fix}" if fix else "")
    ), 502


def _given(*names: str) -> dict[str, str]:
    return {name: request.args.get(name, "").strip() for name in names}


def _seconds(name: str, text: str) -> int | None:
    seconds = seconds_in(text)
    if text and seconds is None:
        raise BadRequest(f"{name}: {text!r} is no time; write 90s, 15m, 1h or 2d.")
    return seconds


def _printable(value: object) -> object:
    """Make printable what a template prints: no answer can have half a surrogate pair."""
    return Markup(printable(value)) if isinstance(value, Markup) else printable(str(value))  # noqa: S704 - is Markup


def _of_letter(letter: Letter, now: int) -> dict[str, Any]:
    """Return the facts of a letter. ``linked`` says whether its run may have a page."""
    facts = letter.facts(now)
    names = (facts["flow"], facts["object_id"])
    return facts | {"age": duration(facts["age"]), "linked": not any(map(name_problem, names))}


def _times(text: str) -> Markup:
    """Keep each time of a text on one line."""
    return Markup(_TIME.sub(r'<span class="at">\g<0></span>', str(escape(text))))  # noqa: S704 - is escaped


def _cut(text: str, most: int = 200) -> str:
    return bounded(text, most)


def _json(value: object) -> str:
    return bounded(to_json(value), LONGEST_VALUE)
