"""An approver answers by the link of a mail, over HTTP. A day passes for another, who is reminded by the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from flowguard.aws.items import run_key
from flowguard.names.ids import ObjectId
from flows.approval.flow import REMIND_AFTER
from tests.proofs.e2e.cloud import Cloud, Received
from tests.proofs.e2e.links import Links
from tests.proofs.e2e.play import Check, Scene, Until

MODULE = "flows.approval.handlers"
GROUP: Final = "flowguard"
MAILS: Final = "approval-mails"
QUEUES: Final = ("expenses-submitted", "approve-expense", "approval-reminders", "remind-approver", "approval-decisions")
FUNCTION: Final = "approve-expense-answers-url"


def scene(cloud: Cloud) -> Scene:
    for approver in ("grace", "heidi"):
        expense = {"expense_id": f"exp-{approver}", "employee": f"ada-{approver}", "approver": approver, "amount": "9"}
        cloud.send("expenses-submitted", expense, {"uniquerequestid": f"request-{approver}"}, copies=2)
    yield Until("both approvers have a link", lambda: _has(cloud, "grace", 1) and _has(cloud, "heidi", 1))
    yield Until("deadlines and reminders are scheduled", lambda: len(_schedules(cloud)) >= 4)
    yield Check("one schedule for each, though each came twice", 4, len(_schedules(cloud)))
    yield from _answered(cloud)
    yield from _reminded(cloud)
    yield Until("the queues are empty", lambda: not any(map(cloud.depth, _fed(cloud))))
    expenses = {one["expense_id"]: (one["status"], one["comment"]) for one in cloud.items("expenses")}
    wanted = {"exp-grace": ("APPROVED", "within the budget"), "exp-heidi": ("DECLINED", "")}
    yield Check("each expense is as its approver has answered", wanted, expenses)
    told = sorted((one.body["to"], one.body["about"]) for one in cloud.distinct(MAILS) if one.body["link"] is None)
    ends = [("ada-grace", "your expense is APPROVED"), ("ada-heidi", "your expense is DECLINED")]
    yield Check("each employee is told once, copies apart", ends, told)
    yield Check("the approver who has answered in time is not reminded", 1, len(_mails(cloud, "grace")))


def _answered(cloud: Cloud) -> Scene:
    """Open the link, as a preview of a mail program does too; then answer twice, and with a forged token."""
    link = _mails(cloud, "grace")[0].body["link"]
    links = Links(cloud, FUNCTION)
    answer = {**links.fields(link), "answer": "approve", "comment": "within the budget"}
    yield Check("who only opens the link has answered nothing", "ASKED", _status(cloud, "exp-grace"))
    first, second = (links.post(link, answer) for _ in "12")
    yield Check("the answer is taken, and so is its copy", (200, 200), (first, second))
    forged = link.replace("?", "x?")
    yield Check("a forged token is refused", 4, links.post(forged, answer) // 100)
    yield Until("the expense is approved", lambda: _status(cloud, "exp-grace") == "APPROVED")


def _reminded(cloud: Cloud) -> Scene:
    """Let a day pass for the reminder: its schedule, its message and its run item are set a day back."""
    [reminder] = [one for one in _schedules(cloud) if "exp-heidi" in one["Target"]["Input"] and _is_reminder(one)]
    due = datetime.fromisoformat(reminder["ScheduleExpression"][3:-1]).replace(tzinfo=UTC)
    left = due - datetime.now(UTC)
    yield Check("the reminder is a day away", True, REMIND_AFTER - timedelta(minutes=10) < left <= REMIND_AFTER)
    _set_back(cloud, reminder, due)
    yield Until("the approver is reminded", lambda: _has(cloud, "heidi", 2))
    names = [one["Name"] for one in _schedules(cloud)]
    yield Check("its schedule is gone", False, reminder["Name"] in names)
    link = _mails(cloud, "heidi")[1].body["link"]
    yield Check("the reminder has the same link", link, _mails(cloud, "heidi")[0].body["link"])
    links = Links(cloud, FUNCTION)
    declined = {**links.fields(link), "answer": "decline", "comment": ""}
    yield Check("it still takes an answer", 200, links.post(link, declined))
    yield Until("the expense is declined", lambda: _status(cloud, "exp-heidi") == "DECLINED")


def _set_back(cloud: Cloud, schedule: Mapping[str, Any], due: datetime) -> None:
    dynamodb = cloud.client("dynamodb")
    key = run_key("remind-approver", ObjectId("exp-heidi"))
    item = dynamodb.get_item(TableName="flowguard", Key=key, ConsistentRead=True)["Item"]
    moment = int(item["wait"]["M"]["deadline"]["N"])
    earlier = moment - REMIND_AFTER // timedelta(milliseconds=1)
    dynamodb.update_item(
        TableName="flowguard",
        Key=key,
        UpdateExpression="SET #wait.deadline = :earlier",
        ExpressionAttributeNames={"#wait": "wait"},
        ExpressionAttributeValues={":earlier": {"N": str(earlier)}},
    )
    target = {**schedule["Target"], "Input": schedule["Target"]["Input"].replace(str(moment), str(earlier))}
    given = ("Name", "GroupName", "ScheduleExpressionTimezone", "FlexibleTimeWindow", "ActionAfterCompletion")
    cloud.client("scheduler").update_schedule(
        **{name: schedule[name] for name in given},
        ScheduleExpression=f"at({due - REMIND_AFTER:%Y-%m-%dT%H:%M:%S})",
        Target=target,
    )


def _is_reminder(schedule: Mapping[str, Any]) -> bool:
    return "remind-approver" in schedule["Target"]["Arn"] or "approval-reminders" in schedule["Target"]["Arn"]


def _schedules(cloud: Cloud) -> list[Any]:
    scheduler = cloud.client("scheduler")
    names = [one["Name"] for one in scheduler.list_schedules(GroupName=GROUP)["Schedules"]]
    every = [scheduler.get_schedule(GroupName=GROUP, Name=name) for name in names]
    return [one for one in every if one["Target"]["Arn"].rpartition(":")[2] in QUEUES]


def _fed(cloud: Cloud) -> list[str]:
    return [queue for queue in cloud.fed if queue in QUEUES]


def _mails(cloud: Cloud, to: str) -> list[Received]:
    return [one for one in cloud.distinct(MAILS) if one.body["to"] == to]


def _has(cloud: Cloud, to: str, mails: int) -> bool:
    return len(_mails(cloud, to)) >= mails


def _status(cloud: Cloud, expense_id: str) -> str:
    return str((cloud.item("expenses", expense_id=expense_id) or {}).get("status"))
