"""Mutants that no schedule can tell from the whole flowguard, or that do no harm: each named, with the reason.

One of them that is killed all the same is a failure: then the reason is wrong. Variables of a function that were
renamed since may stand here under their earlier names (``tests.proofs.prove.renamed``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_BY_REASON: Final[Mapping[str, Sequence[str]]] = {
    "what is allowed is a set": (
        "deploy.permissions._killed: allowed.sends(flow_sends(flow, scope)); then allowed.sends((queue for stage in flow.stages for queue in _queues_before(flow, stage))) → the other way round",
    ),
    "a run behind its first hop has nothing unsent of it, and early answers are looked for once more": (
        "worker.turned_away.TurnedAway._asked_meanwhile: verdict is Verdict.DONE → forced true",
        "worker.turned_away.TurnedAway._asked_meanwhile: verdict is Verdict.DONE → forced true (2)",
    ),
    "a flow without lanes has none to look for": ("flow.Flow.carried_from: LANE not in cls.carry → forced false",),
    "a call without limits asks for no places": (
        "once_function.OnceFunction._run: wanted → forced true",
        "once_function.OnceFunction._ask: rule.limits → forced true",
    ),
    "places that a call holds are taken once more, and stay as they are": (
        "once_function.OnceFunction._take: late is None → forced true",
    ),
    "a type that hides anything is refused before the call is made": (
        "recorded.remembered.ResultForm.text_of: self.adapter is None → forced true",
    ),
    "no answer ends the wait of a run that was cancelled": (
        "worker.settler._is_just_cancelled: verdict is AnswerVerdict.RESUMED → forced false",
    ),
    "None stands for no value, whichever of the two is left": ("deploy.derive._reserved: None → forced false",),
    "it spares the work of finding nothing": (
        "aws.commit_call._add_callers: item.askers → forced true",
        "aws.transport.answers._content: body == b'{}' → forced false",
        "aws.transport.answers._content: b'null' in body → forced true",
        "aws.transport.connections.Connections._limit: (seconds := min(self._read_seconds, left)) != connection.gettimeout() → forced true",
        "handler.lambda_answer: not left → forced false",
        "protocol.claims.noted_asker: message.reply_to is None → forced false",
        "wire.envelope.Envelope.tenant: group is None → forced false",
        "wire.message.Place.parse: 'reply_to' in data → forced true",
        "worker.batch.Batch._at_work: not self._emitter.opens_spans → forced false",
        "worker.commit_phase.CommitPhase.write: not commit.takes_callers → forced true",
        "worker.batch.Batch._at_work: self._has_several → forced true",
        "worker.kills.counted: kills == claim.item.kills → forced false",
        "worker.routing.Routes.resolve: flow.codec is None → forced false",
        "wire.message.Place.parse: version is None → forced false",
        "worker.batch.Batch._hand_back: not ending.ack → forced true",
        "worker.caller_answers.CallerAnswers.flush: not claim.item.askers → forced false",
        "worker.dispatch.dispatch: not any((ending.sends for ending in endings)) → forced false",
        "worker.handle_phase.HandlePhase.planned: self._outside is None and (not self._emitter.opens_spans) → forced false",
        "worker.handle_phase.HandlePhase.planned: self._outside is None → forced false",
        "worker.hop_planner.planner_of: claim.item.askers → forced true",
        "worker.lifetimes.Lifetimes.not_before: lives_until > needed → becomes lives_until >= needed",
        "worker.lifetimes.Lifetimes.not_before: lives_until > needed → forced true",
        "worker.own_table.is_of_run_table: not envelope.source.is_stream → forced false",
        "worker.dispatch.DueSends.add: ending.sends → forced true",
        "worker.plan.dead_letter: any(marks.values()) → forced true",
        "worker.unread.begun_and_held: not left → forced false",
    ),
    "retries go to queues alone, which the types do not say": (
        "worker.plan.retried: isinstance(to, Queue) → forced true",
    ),
    "the rows are different ones": (
        "operate.forget_object.Forgetter._remove: self.forgetting.remove_rows([*traces.callers, *late, *traces.calls, *groups]); then self.forgetting.empty_asked(traces.asked) → the other way round",
    ),
    "a call that raised is the only one whose key has no owner, and its status is RUNNING": (
        "expressions.CLAIM_PAYLOADS_KEY: #status = :running → true",
        "expressions.CLAIM_PAYLOADS_KEY: attribute_not_exists(#owner) → false",
    ),
    "it does not matter which of two errors is told": ("worker.callbacks.Callbacks._answer_of: missed → forced false",),
    "one that cannot be read is refused before": (
        "wire.stream_letters.readable_now: _unread(value) is None → forced true",
    ),
    "an error's text is never so long": ("worker.http_starts._seen: 'result' in content → forced true",),
    "what says nothing of a key that pauses itself is asked in vain": (
        "worker.hop_places.HopPlaces._free: "
        "limit.pause_after is not None or (seen is not None and seen.places.pause is not None) → forced true",
        "worker.hop_places.HopPlaces._free: seen.places.pause is not None → forced true",
        "worker.turn_messages.TurnMessages.follow: change.tripped or change.healed → forced true",
    ),
    "what keeps nothing back is asked in vain": (
        "worker.handle_phase.HandlePhase.planned: "
        "arrival.envelope.source.is_stream or arrival.flow.debounce is not None → forced true",
    ),
    "an invocation ends no later than its lease, so no place of a call that begins has lapsed": (
        "worker.call_places.CallPlaces._late: mine.limit.window → forced true",
    ),
    "a row that is there is not new": (
        "operate.stage_pauses.StagePauses._restores_row: drained is not None → forced true",
    ),
    "nothing else goes wrong there": (
        "worker.call_places._place: except RunFailed → catches every Exception",
        "worker.starts.Starts._may_show: except ReaderBroken → catches every Exception",
        "aws.place_items._seen: except (KeyError, TypeError, ValueError) → catches every Exception",
        "aws.pause_rows._pause: except (KeyError, TypeError, ValueError) → catches every Exception",
        "aws.transport.answers._read_error: except ValueError → catches every Exception",
        "worker.missed.beside_stream: except TooLarge → catches every Exception",
        "worker.external_answers.read_outside: except EnvelopeError → catches every Exception",
        "worker.missed.beside_stream: except TooLarge → catches nothing",
        "aws.transport.connections.Connections._is_open: except OSError → catches every Exception",
        "worker.start_rule.StartRule._body_key: except NoKey → catches every Exception",
        "worker.start_rule._json: except (ValueError, RecursionError) → catches every Exception",
        "wire.stream_letters.stream_letter_problem: except (ValueError, RecursionError) → catches every Exception",
        "wire.stream_letters.readable_now: except (ValueError, RecursionError) → catches every Exception",
        "wire.stream_letters._unread: except EnvelopeError → catches every Exception",
        "wire.stream_records._data: except ValueError → catches every Exception",
        "wire.stream_records._data: except UnicodeDecodeError → catches every Exception",
        "wire.stream_records._change: except (ValueError, RecursionError) → catches every Exception",
        "deploy.planned.account.PlannedAccount._check_indexes: except ValidationError → catches every Exception",
        "deploy.setting_checks._parsed: except ValueError → catches every Exception",
        "aws.object_scan._started_by: except (ValueError, TypeError) → catches every Exception",
    ),
    "what is filed under nobody is looked for by nobody": (
        "aws.object_scan.ObjectScan.read: (of := _started_by(flow, row)) is not None → forced true",
    ),
    "nobody looks at the tags of other resources": (
        "deploy.planned.terraform_kinds._properties: type_ in _TAGGED → forced true",
    ),
    "what is not there trusts nobody, and lets nobody be missed": (
        "deploy.role_checks._trust: trust is None → forced false",
    ),
    "a text without a pattern matches itself alone, and what is not known is neither": (
        "deploy.planned.statements._equals: wanted.startswith('arn:') → forced true",
        "deploy.planned.statements._equals: is_known(value) → forced true",
        "deploy.planned.statements._equals: not {'*', '?'} & {*str(value)} → forced true",
    ),
    "what JSON refuses for another reason botocore refuses, too": (
        "aws.transport.json_client.JSONClient._call: except TypeError → catches every Exception",
    ),
    "a clock may be off by just so much, or more": (
        "aws.transport.json_client.JSONClient._corrects: abs(skew - self._skew) < SKEW_SECONDS → becomes abs(skew - self._skew) <= SKEW_SECONDS",
    ),
    "a pause that ends with just the least time of a call left leads to such a call, or to none": (
        "aws.transport.json_client.JSONClient._answered: pause >= self._left() - LEAST_SECONDS → becomes pause > self._left() - LEAST_SECONDS",
    ),
    "the clock and the calendar raise nothing else": (
        "aws.transport.json_client.JSONClient._corrects: except (ValueError, OverflowError) → catches every Exception",
    ),
    "a list that is empty ends the loop by its error, too": ("aws.transport.connections._close: kept → forced true",),
    "a loop without an end is one": (
        "aws.transport.json_client.JSONClient._answered: True → forced true",
        "aws.transport.odd_answers._from_its_head: True → forced true",
    ),
    "nothing but an empty list keeps an element from being taken": (
        "aws.transport.connections.Connections._kept_one: except IndexError → catches every Exception",
    ),
    "the way of an empty list ends where another thread was quicker, too": (
        "aws.transport.connections.Connections._kept_one: self._kept → forced true",
    ),
    "an answer that has no bytes of DynamoDB is the same after they are looked for": (
        "aws.transport.answers._decoder: b'\"B\"' in body or b'\"BS\"' in body → forced true",
    ),
    "what is loaded for a request that is not cancelled asks for that again": (
        "worker.turned_away.TurnedAway.ending: arrival.message.cancelled is not None → forced true",
    ),
    "a record that is alone shares no call, and needs no thread: it ends the same on the longer way": (
        "worker.batch.Batch.run: len(envelopes) > 1 → forced true",
        "worker.batch.Batch.run: len(envelopes) > 1 → becomes len(envelopes) >= 1",
        "worker.batch.Batch.run: len(envelopes) > 1 → forced true (2)",
        "worker.batch.Batch.run: len(envelopes) > 1 → becomes len(envelopes) >= 1 (2)",
        "worker.batch.Batch._ended: len(work) > 1 → becomes len(work) >= 1",
    ),
    "of two arguments that cannot be meant either is named first": (
        "client.FlowClient.result: _check_flow(flow); then _check_age(max_age) → the other way round",
    ),
    "names of the code are translated into themselves": (
        "names.at_aws.Names.queue_in_code: self.are_those_of_the_code → forced false",
        "names.at_aws.Names.topic_in_code: self.are_those_of_the_code → forced false",
        "wire.envelope.normalize: names.are_those_of_the_code → forced false",
        "names.at_aws.Names.queue_of_arn: self.are_those_of_the_code → forced false",
    ),
    "a name that has no account is its own short form": ("names.at_aws.exact_name: is_exact(name) → forced true",),
    "no destination stays none where one is made of it": ("client.FlowClient.start: reply_to is None → forced false",),
    "nothing looks at the first text of a later hop": ("protocol.claims.taken: first → forced true (2)",),
    "a topic in the place of an inbox says whether it is a FIFO one, too": (
        "deploy.queue_plan.times_of: isinstance(inbox, Queue) → forced true",
    ),
    "what may share its calls asks for its hop before it ends": (
        "worker.batch.Batch._ask: not isinstance(ask, Ending) → forced true",
    ),
    "the owner of a queue and who uses it are kept apart": (
        "deploy.queue_plan.QueuePlan._read: self._owners.setdefault(name, flow); then self._used_by.setdefault(name, []).append(flow) → the other way round",
    ),
    "what is allowed is collected in sets, which have no order": (
        "deploy.permissions._Allowed.schedules: self.on(Target.SCHEDULES, settings.scheduler_group, 'scheduler:CreateSchedule'); then self.on(Target.SCHEDULER_ROLE, settings.scheduler_role or '', 'iam:PassRole') → the other way round",
        "deploy.permissions._stream: allowed.on(Target.QUEUE, stream.undelivered, 'sqs:SendMessage'); then allowed.sends((flow.inbox_of(stage) for flow, stage in function.stages if stage is flow.entry())) → the other way round",
        "deploy.permissions._orders: allowed.on(Target.TABLE, settings.table, 'dynamodb:GetItem'); then allowed.sends((flow.answers, *wait_targets(flow))) → the other way round",
        "deploy.permissions._orders: allowed.sends((flow.answers, *wait_targets(flow))); then _groups(allowed, flow, settings) → the other way round",
        "deploy.permissions._cancellations: allowed.on(Target.TABLE, settings.table, 'dynamodb:GetItem'); then allowed.sends(wait_targets(flow)) → the other way round",
        "deploy.permissions.permissions_of: allowed.on(Target.OBJECTS, place, 's3:GetObject', 's3:PutObject'); then allowed.on(Target.BUCKET, place, 's3:ListBucket') → the other way round",
        "deploy.permissions._groups: allowed.on(Target.TABLE, settings.table, 'dynamodb:GetItem', 'dynamodb:Query'); then allowed.sends((*stage_sends(flow, stage), flow.dead_letters)) → the other way round",
    ),
    "a flow that waits has a queue of answers: its class is refused without": (
        "deploy.permissions._gets_deadlines: isinstance(flow.answers, Queue) → forced true",
        "deploy.queue_plan._entrances: isinstance(flow.answers, Queue) → forced true",
    ),
    "nothing but a queue is named by a URL": (
        "deploy.regions._without_region: permission.on is Target.QUEUE → forced true",
    ),
    "each queue that is known by then has its reader": ("deploy.queue_plan.QueuePlan._read: reader → forced false",),
    "a queue has one topic, which each of its callbacks names": (
        "deploy.queue_plan.QueuePlan._read: known is not None → forced false (3)",
    ),
    "a place that cannot be read is a ValueError, whatever is wrong with it": (
        "aws.sender._deduplication_id: except ValueError → catches every Exception",
    ),
    "what SNS hands to a function is read before, and reading a record raises nothing else": (
        "wire.envelope._read: notification is None → forced true",
        "wire.envelope._read_invocation: except EnvelopeError → catches every Exception",
        "wire.envelope._unopened: except EnvelopeError → catches every Exception",
        "wire.envelope._read_or_bad: except EnvelopeError → catches every Exception",
        "wire.envelope._read_or_bad: except EnvelopeError → catches every Exception (2)",
    ),
    "an outbox of an earlier commit is in the item that the claim found": (
        "worker.flush_phase._has_sent: before is not None → forced true",
    ),
    "what is empty is false already": (
        "wire.envelope._wrap: 0 → forced false",
        "worker.dead_letters.Letter.read: {} → forced false",
        "deploy.security_checks._network: {} → forced false",
        "worker.dead_letters.Letter.read: 0 → forced false",
        "worker.dead_letters._sent_at: 0 → forced false",
        "limit.PerKey.most_of: 0 → forced false",
        "aws.redriver.Redriver._by_runs: {} → forced false",
        "worker.commit_phase.CommitPhase.answered: '' → forced false",
        "worker.dead_letters._message: ObjectId('') → forced false",
    ),
    "a record without an ARN is as one whose ARN is none": (
        "worker.dead_letters.Letter.read: source_arn → forced true",
    ),
    "reading a text raises nothing else": (
        "worker.dead_letters.Letter.read: except (EnvelopeError, ValueError) → catches every Exception",
        "worker.dead_letters._is_json: except (ValueError, RecursionError) → catches every Exception",
        "wire.records._text: except (TypeError, ValueError, RecursionError) → catches every Exception",
        "wire.records.unread_stream_record: except (TypeError, ValueError, RecursionError) → catches every Exception",
    ),
    "a letter whose flow is known was read": (
        "worker.dead_letters.Letter.carried: self.message is None → forced false",
        "worker.dead_letters.Letter.carried: self.envelope is None → forced false",
    ),
    "a parked letter was read": ("worker.dead_letters.Letter.home_arn: self.envelope is None → forced false",),
    "what has a kind is an object": ("wire.records.open_record: not isinstance(record, dict) → forced false",),
    "what is no text has no service": (
        "wire.records._made_record: isinstance(arn, str) → forced true",
        "wire.envelope._origin: isinstance(arn, str) → forced true",
    ),
    "an empty mapping is false already": (
        "wire.envelope.resend_alone: {} → forced false",
        "deploy.stream_checks._destination: {} → forced false",
        "deploy.stream_checks._destination: {} → forced false (2)",
    ),
    "most stages' messages are told from events without reading their place": (
        "wire.envelope._may_be_event: "
        "EVENT not in place and (not place.startswith(_DEPTH_FIRST)) and ('\\\\' not in place) → forced false",
    ),
    "a denial of hours ago is another one when it is met, whether it was forgotten before or not": (
        "worker.denials.Denials._last_until: len(self._denied) >= MOST_KNOWN → forced true",
    ),
    "where a payload is decoded for its object, nothing but RunFailed is raised": (
        "worker.routing._read_before: except RunFailed → catches every Exception",
        "worker.routing.Routes._arrival: except RunFailed → catches every Exception",
    ),
    "no request without a stage is claimed": ("worker.unread_payload.why_unread: stage is None → forced false",),
    "the JSON of a text, and a time in one, raise nothing else": (
        "wire.notification.find_notification: except (ValueError, RecursionError) → catches every Exception",
        "wire.notification._wrong_value: except ValueError → catches every Exception",
    ),
    "a run without a failure of its own is refused before": (
        "operate.begun_anew.first_in_letters: failed is not None → forced true",
    ),
    "no ASCII has half a pair or one of the two characters": (
        "wire.notification.to_json: not text.isascii() → forced true",
    ),
    "a delay of 0 is none, and nobody asks": (
        "recorded.side_messages._check_delay: 0 <= delay <= LONGEST_SQS_DELAY.total_seconds() → becomes "
        "0 < delay <= LONGEST_SQS_DELAY.total_seconds()",
    ),
    "no destination stays none": ("recorded.side_messages.SideMessages.start: reply_to is None → forced false",),
    "the store settles an answer that uses nothing up in either way": (
        "worker.settler.Settler.settle: use is None → forced false",
    ),
    "an empty text is false already": (
        "deploy.permissions._Allowed.schedules: '' → forced false",
        "deploy.queue_plan.QueuePlan._dead_letter_queues: '' → forced false",
        "deploy.queue_plan.QueuePlan._takes_redrives: '' → forced false",
        "worker.group_cancels._asker: {} → forced false",
    ),
    "a call that finds an expired entry changed three times comes again at once, or a second later": (
        "aws.ledger.DynamoDBLedger.claim: ask.now + 1000 → becomes ask.now",
    ),
    "no entry lets every call in, so there is no result to bring": (
        "aws.ledger.DynamoDBLedger._claim: before is not None → forced true",
    ),
    "an entry of exactly the limit is refused, or stored": (
        "aws.ledger.DynamoDBLedger._packed: sum(sizes.values()) > LARGEST_ITEM → becomes sum(sizes.values()) >= LARGEST_ITEM",
    ),
    "its caller reports the function's own error whatever is raised here, and the lease ends by itself": (
        "aws.ledger.DynamoDBLedger.free: except botocore_errors.ClientError → catches every Exception",
    ),
    "leases and visibility save work that is done twice; what is applied, the fence decides": (
        "worker.claim_phase.ClaimPhase.lease: arrival.stage is not None → forced false",
        "worker.claim_phase.ClaimPhase.lease: arrival.stage.timeout if arrival.stage is not None else None → forced false",
        "worker.turned_away.TurnedAway._refused: case Verdict.BUSY → never taken",
    ),
    "a later hop is claimed only for the request that stands there, so the same is written again": (
        "expressions.CLAIM_LATER_HOP: SET request_id = :request_id → left out",
        "expressions.CLAIM_LATER_HOP: SET requested_at = :requested_at → left out",
        "expressions.CLAIM_LATER_HOP: SET version = :version → left out",
        "expressions.CLAIM_RESUMED_HOP: SET request_id = :request_id → left out",
        "expressions.CLAIM_RESUMED_HOP: SET requested_at = :requested_at → left out",
        "expressions.CLAIM_RESUMED_HOP: SET version = :version → left out",
    ),
    "a hop that another one follows has no result, and a failed run none either: nothing is there": (
        "expressions.CLAIM_LATER_HOP: REMOVE #result → left out",
        "expressions.CLAIM_RESUMED_HOP: REMOVE #result → left out",
    ),
    "what carried the run on came last, so these are copies: clearing them saves their bytes": (
        "expressions.CLAIM_LATER_HOP: REMOVE outbox → left out",
    ),
    "nobody reads it of a claim: neither the runtime nor the commit": (
        "protocol.claims.taken: before._replace(stages={m.stage: m.request_id} if first else {**before.stages, m.stage: m.request_id}) → left out",
        "protocol.claims.taken: before._replace(ttl=request.expires_at // 1000) → left out",
        "protocol.claims.taken: first → forced true",
        "protocol.claims.taken: first → forced false",
        "protocol.claims.taken: {m.stage: …} → left out",
        "protocol.claims.taken: {**before.stages: …} → left out",
        "protocol.claims.taken: {m.stage: …} → left out (2)",
    ),
    "what a validator of the user's own raises is raised here as well, or names what the wait has not asked for": (
        "worker.resumed_payload._decoded: except RunFailed → catches every Exception",
        "worker.resumed_payload._decoded: except RunFailed → catches every Exception (2)",
    ),
    "a stage that takes anything refuses no answers: this is for the type checker": (
        "worker.resumed_payload._decoded: {} → forced false",
    ),
    "what has no such value is written anew as it was, or stays": (
        """worker.failure_note._as_plain_json: '"$"' not in text → forced false""",
    ),
    "a text that was stored can be read: writing it anew is all that fails": (
        "worker.failure_note._as_plain_json: except TypeError → catches every Exception",
    ),
    "asking a flow for its stage raises nothing else, and what was stored was small enough to be sent": (
        "worker.settler.Settler.onward: except OtherRelease → catches every Exception",
        "worker.settler.Settler._to_its_stage: except RunFailed → catches every Exception",
    ),
    "without an item no run is to go on, and a wait that was changed is there: this is for the type checker": (
        "worker.settler._is_held: item is None → forced false",
        "aws.waits.DynamoDBWaits._changed: item.wait is not None → forced true",
    ),
    "False is counted as zero": (
        "deploy.derive._functions: 0 → forced false",
        "worker.external_answers.ExternalAnswers._has_come_again: 0 → forced false",
    ),
    "an absent set is smaller than any number: it is asked for because moto refuses to tell its size": (
        "expressions.ANSWER: attribute_exists(waiting) → true",
        "expressions.TIME_OUT: attribute_exists(waiting) → true",
        "expressions.TIME_OUT_LATER: attribute_exists(waiting) → true",
        "expressions.CAN_CANCEL_WAIT: attribute_exists(waiting) → true",
        "expressions.CLOSE_SHARD: attribute_exists(waiting) → true",
        "expressions.ASK_ON: attribute_exists(waiting) → true",
    ),
    "an item that waits has its wait with its plan, and a commit of one packs it: this is for the type checker": (
        "protocol.claims.is_waiting: item.wait is None → forced false",
        "protocol.claims.is_abandoned: item.wait is not None → forced true",
        "aws.commit_call._new_wait: plan is not None → forced true",
        "aws.waits.DynamoDBWaits._settle: after.wait is not None → forced true",
        "worker.settler.Settler.look_early: wait is None → forced false",
        "worker.settler.Settler.look_early: wait.plan is None → forced false",
    ),
    "only the outbox of a hop that waited has a deadline, and a resumed hop finds none but that of its own run": (
        "worker.flush_phase.FlushPhase._left: message.resumed → forced true",
        "worker.flush_phase.FlushPhase._left: outbox.request_id == message.request_id → forced true",
    ),
    "with nothing to save no call is made, and where nothing may be early nothing is looked for": (
        "worker.commit_phase.CommitPhase.written: commit.wait.rows → forced true",
        "worker.kept_answers.KeptAnswers.of_commit: not commit.wait.plan.early → forced false",
    ),
    "a claim that no wait came before puts no outbox into what it answers, whatever was read": (
        "aws.store.DynamoDBStore._claimed_item: request.message.resumed → forced true",
    ),
    "pydantic reads a field's alias as its validation alias, and only a field has a name that is asked for": (
        "worker.resumed_payload._key: field.alias → forced false",
        "worker.resumed_payload._is_required: fields is not None → forced true",
    ),
    "an outbox that nothing asks for is not sent": (
        "aws.store.DynamoDBStore._refused: verdict is Verdict.STALE → forced true",
    ),
    "asking for the running loop raises no other error": (
        "worker.event_loop._is_running: except RuntimeError → catches every Exception",
    ),
    "of an item that is not there a size is no number, and the condition fails: this is for moto, which raises": (
        "expressions.PLACE_IS_FREE: attribute_exists(held) → true",
    ),
    "the clauses of an update expression have no order": (
        "aws.commit_call.CommitCalls.commit: _add_look(update, claim); then _add_failed(update, claim.item, commit) → the other way round",
        "aws.commit_call.CommitCalls.commit: _add_failed(update, claim.item, commit); then _add_callers(update, claim, commit) → the other way round",
        "aws.commit_call.CommitCalls.commit: _add_callers(update, claim, commit); then _add_wait(update, claim.item, commit, texts) → the other way round",
        "aws.commit_call.CommitCalls.commit: _add_wait(update, claim.item, commit, texts); then _add_texts(update, texts) → the other way round",
    ),
    "to remove what is not there changes nothing": (
        "aws.commit_call._add_wait: item.wait is not None → forced true",
        "aws.commit_call._ending: item.called_attempt → forced true",
    ),
    "the process is being stopped, which no schedule does: killing it is all that is left to see": (
        "worker.handler_calls.HandlerCalls.of_stage: not is_stopped → forced true",
    ),
    "the problem is always there where the object is not: what is put in its place is for the type checker": (
        "worker.no_run.NoRun.ending: RunFailed('the message names no object') → forced false",
    ),
    "the two are never equal there: equal ones have been answered a line before": (
        "protocol.claims.decide: m.hop < item.hop → becomes m.hop <= item.hop",
    ),
    "a write without a condition cannot fail by it: the other branch is for the type checker": (
        "aws.writes.condition_failure: write.condition is not None → forced true",
    ),
    "a message for no stage is of another release, and is never claimed: this is for the type checker": (
        "worker.routing.Arrival.takes_lease: self.stage is None → forced false",
        "worker.claim_phase.ClaimPhase.lease: arrival.stage is not None → forced true",
        "worker.fail_phase.FailPhase.failed: arrival.stage is not None → forced true",
    ),
    "the note of a release counts the kills too: the item is taken for eight bytes larger": (
        "aws.history_room._kept: commit is not None → forced true",
    ),
    "the first part is never true without the second, which is for the type checker": (
        "worker.handle_phase.HandlePhase.planned: arrival.stage is None → forced false",
        "worker.turned_away.TurnedAway._refused: case Verdict.DONE if item is not None → forced true",
        "worker.turned_away.TurnedAway._refused: case Verdict.BUSY if item is not None → forced true",
        "worker.turned_away.TurnedAway._refused: case Verdict.RESET if item is not None → forced true",
        "worker.turned_away.TurnedAway._refused: case Verdict.ATTACHED | Verdict.KEPT if item is not None → forced true",
        "worker.turned_away.TurnedAway._refused: case Verdict.GIVEN_UP if item is not None → forced true",
        "worker.claim_phase.ClaimPhase.claim: claim.item is None → forced false",
        "worker.commit_phase.CommitPhase.answered: case FencedBy.FINISHED if answer.item is not None → forced true",
        "aws.store.DynamoDBStore._refused: item is not None → forced true",
        "aws.store.DynamoDBStore._refused: item is not None → forced true (2)",
        "aws.store.DynamoDBStore._refused: item is not None → forced true (3)",
        "worker.settler.Settler._later: item is None → forced false",
        "worker.settler.Settler._later: item.wait is None → forced false",
        "aws.store.DynamoDBStore._fenced: item is not None → forced true",
        "aws.store.DynamoDBStore._fenced: item is not None → forced true (2)",
        "aws.waits.DynamoDBWaits.time_out: item is None → forced false",
        "aws.waits.DynamoDBWaits.time_out: item.wait is None → forced false",
    ),
    "only an observer, or whoever calls the function directly, is told": (
        "worker.ending.acked: Ending(verdict=verdict) → left out",
        "worker.ending.acked: Ending(result=result) → left out",
        "worker.ending.kept: Ending(verdict=verdict) → left out",
        "worker.ending.kept: Ending(arrival=arrival) → left out",
    ),
    "what no rule may raise is raised again where the message's object is settled": (
        "worker.routing._named_by: except RunFailed → catches every Exception",
    ),
    "a flow's stage is looked up by its name: nothing else can be raised there": (
        "worker.routing._stage: except RunFailed → catches every Exception",
    ),
    "a place that cannot be read raises nothing else": (
        "wire.envelope._may_be_event: except ValueError → catches every Exception",
        "wire.message.chain_in: except ValueError → catches every Exception",
        "wire.tenant.tenant_in: except (ValueError, RecursionError) → catches every Exception",
    ),
    "what was decoded to find the object is decoded again, from the same text": (
        "worker.handle_phase.HandlePhase.planned: payload is None or calls → forced true",
    ),
    "an answer is made of the item, whose only error is that its text is gone": (
        "worker.turned_away.TurnedAway._answered_by_another: except TextGone → catches every Exception",
    ),
    "a warning is given and a list grows: neither looks at the other": (
        "aws.sender.AWSSender._to_queue_in_time: logger.warning('a deadline goes by SQS, a quarter of an hour at a time: %s', refusals.pop(place).why); then soon.append((place, late[place]._replace(delay=_LONGEST_IN_SQS))) → the other way round",
    ),
    "with nothing to send the sender makes no call": (
        "worker.flush_phase.FlushPhase._flush_outbox: not sends → forced false",
    ),
    "what no case takes raises, so the record stays and is told DONE when it comes again: one delivery more": (
        "worker.commit_phase.CommitPhase.answered: case FencedBy.FINISHED → never taken",
    ),
    "copies of what the later hop's own record sends": (
        "protocol.run.RunItem.unsent_at: self.hop == hop → forced true",
    ),
    "what is not there is removed without harm": (
        "aws.commit_call._add_callers: item.answered_by is not None → forced true",
        "aws.commit_texts.keeps_failed: item.failed is None → forced false",
    ),
    "an item that awaits names at this very hop is WAITING": (
        "expressions.TIME_OUT_LATER: #status = :waiting → true",
        "expressions.CAN_CANCEL_WAIT: #status = :waiting → true",
    ),
    "what is no answer of DynamoDB is not final, and raised again": (
        "aws.store.DynamoDBStore.judge: except botocore_errors.ClientError → catches every Exception",
        "aws.tables.read_consistently: except botocore_errors.ClientError → catches every Exception",
    ),
    "no two claims have one owner, and the owner is compared too": (
        "expressions.COMMIT: request_id = :request_id → true",
        "expressions.REMEMBER: request_id = :request_id → true",
        "protocol.claims.is_claimed_by: (item.request_id, item.epoch, item.owner) == (mine.request_id, mine.epoch, mine.owner) → without item.request_id",
        "protocol.claims.is_claimed_by: (item.request_id, item.epoch, item.owner) == (mine.request_id, mine.epoch, mine.owner) → without item.epoch",
        "expressions.COMMIT: epoch = :epoch → true",
    ),
    "the reader takes the value that is not there for this very one": (
        "protocol.outbox.Send.as_json: self.delay or self.group → forced true",
        "wire.message.Message.own_attributes: self.object_id → forced true",
        "wire.message.Message.own_attributes: self.retry → forced true",
        "wire.message.Message.own_attributes: self.redrive → forced true",
        "wire.message.Message.own_attributes: self.reply_to is not None → forced true",
        "wire.message.Message.own_attributes: self.attempts is not None → forced true",
    ),
    "for the type checker: a wait that is read with its plan has one, and one that was changed is there": (
        "aws.waits.DynamoDBWaits._committed: wait.plan is None → forced false",
        "worker.group_asks._awaited: wait.plan is None → forced false",
        "worker.handle_phase.HandlePhase._ended_group: wait.plan is not None → forced true",
        "aws.group_items.DynamoDBGroups._drop: item.wait is None → forced false",
        "aws.group_items.DynamoDBGroups._settled: item is not None → forced true",
        "aws.waits.DynamoDBWaits._changed: raw is None → forced false",
    ),
    "it is true itself: forced to be so it stays what it is": (
        "worker.driving.Driver.alone: True → forced true",
        "worker.runtime.Runtime.work: True → forced true",
        "aws.caller_lists.DynamoDBCallers._changed: True → forced true",
        "aws.caller_lists.DynamoDBCallers.rows: True → forced true",
        "aws.wait_calls.WaitCalls.query: True → forced true",
    ),
    "a later hop has no insert: a path stands among what it assigns": (
        "aws.batch_calls.DynamoDBBatches.claim: requests[p].message.hop == 1 → forced true",
    ),
    "an insert that follows is refused where there is an item": (
        "aws.batch_calls._is_absent: _code(answer) == 'ConditionalCheckFailed' → forced true",
    ),
    "it is a guess about costs, and either way is right": (
        "aws.batch_calls.DynamoDBBatches._learn: request.message.flow == flow → forced true",
        "aws.batch_calls.DynamoDBBatches._learn: 2 * met > len(mine) → becomes 2 * met >= len(mine)",
        "aws.batch_calls._requests: size + length > LARGEST_CALL → becomes size + length >= LARGEST_CALL",
    ),
    "each statement has an answer, and no request is refused in three ways at once": (
        "aws.batch_calls.DynamoDBBatches._judge: answers → forced true",
        "aws.batch_calls.DynamoDBBatches._judge: codes <= _NOT_HERE → becomes codes < _NOT_HERE",
    ),
    "a letter that cannot be read is refused a step later, in the same words: this is for the type checker": (
        "worker.redriven_messages.check_returnable: letter.message is None → forced false",
    ),
    "what was found out before is found out again, from the same flow": (
        "worker.record_sources.NamedQueues.origins: known is None → forced true",
    ),
    "no item is as large as a request may be": ("aws.batch_calls._requests: places → forced true",),
    "a name that does not stand in the text replaces nothing, and each that is given can be quoted": (
        "aws.partiql._named: (quoted := f'\"{placeholder}\"') in text → forced true",
    ),
    "it is as good as false itself: forced to be so it stays what it is": (
        "worker.lifetimes.Lifetimes.of_end: 0 → forced false",
        "worker.redriven_messages._statement: '' → forced false",
        "worker.caller_answers.CallerAnswers._end: '' → forced false",
        "worker.trust.Trust._is_signed: '' → forced false",
        "worker.turned_away.TurnedAway.done: '' → forced false",
        "worker.turned_away.TurnedAway._answered_by_another: '' → forced false",
        "worker.settler.Settler._take_kept: '' → forced false",
        "worker.routing.Routes.resolve: ObjectId('') → forced false",
        "aws.caller_lists.DynamoDBCallers._change: {} → forced false",
        "worker.recorded_only._Judge.function: () → forced false",
    ),
    "whatever else is raised would be a reason to keep the lease too": (
        "worker.recorded_only.unrecorded: except _Unknown → catches every Exception",
    ),
    "both are judged, and the first reason against a lease is as good as the second": (
        "worker.recorded_only._Judge.class_: self._known.add(name); then self._field(field) → the other way round",
        "worker.recorded_only._Judge._field: self._called(field.default_factory); "
        "then self._called(getattr(field, 'exclude_if', None)) → the other way round",
    ),
    "0 is the same byte with a sign and without": (
        "wire.kafka_records.KafkaRecord._headers: number < 0 → becomes number <= 0",
    ),
    "building a message to be sent raises nothing else: its texts were read from one": (
        "worker.fail_phase.FailPhase._again: except TooLarge → catches every Exception",
        "worker.fail_phase.FailPhase._goes_on: except TooLarge → catches every Exception",
        "worker.given_up.GivenUp.judged: except TooLarge → catches every Exception",
        "worker.plan.dead_letter: except TooLarge → catches every Exception",
        "worker.plan.letter_or_why: except Reject → catches every Exception",
        "worker.resend.fitting: except TooLarge → catches every Exception",
        "worker.unread.is_parked: except TooLarge → catches every Exception",
        "worker.unread._refusal: except Reject → catches every Exception",
    ),
    "nothing else can be raised there: reading JSON, judging what was read, turning values into DynamoDB's": (
        "aws.writes.write_action: except (TypeError, RecursionError) → catches every Exception",
        "payload.results._text_of: except UnicodeEncodeError → catches every Exception",
        "payload.names.function_problems: except ValueError → catches every Exception",
        "payload.results._checked: except ValueError → catches every Exception",
        "payload.results.ResultType._plainly: except Unstorable → catches every Exception",
        "payload.results._of_a_field: except ValueError → catches every Exception",
        "aws.writes._to_value: except (TypeError, ArithmeticError) → catches every Exception",
        "wire.message.Place.parse: except (ValueError, RecursionError) → catches every Exception",
        "wire.object_notices.find_object_notice: except (ValueError, RecursionError) → catches every Exception",
        "wire.kafka_records.KafkaRecord._value: except (ValueError, RecursionError) → catches every Exception",
        "wire.kafka_records.KafkaRecord._headers: except (AttributeError, TypeError, OverflowError) "
        "→ catches every Exception",
        "wire.kafka_records.KafkaRecord._bytes: except ValueError → catches every Exception",
        "wire.kafka_records._text_of: except UnicodeDecodeError → catches every Exception",
        "worker.routing.Routes._place: except ValueError → catches every Exception",
        "worker.trust._named: except (ValueError, RecursionError) → catches every Exception",
        "worker.trust._named: except RunFailed → catches every Exception",
        "worker.dispatch.send_or_park: except Reject → catches every Exception",
        "worker.plan.Planner._notices_of: except Reject → catches every Exception",
        "protocol.outbox._is_readable: except ValueError → catches every Exception",
        "protocol.outbox._type_problem: except EnvelopeError → catches every Exception",
        "wire.bodies.bus_detail: except (ValueError, RecursionError) → catches every Exception",
        "wire.http_request.HttpRequest.text: except ValueError → catches every Exception",
        "worker.failure_note._payload: except UnicodeEncodeError → catches every Exception",
        "wire.http_request._fields: except ValueError → catches every Exception",
        "wire.http_request._weight: except ValueError → catches every Exception",
        "worker.http_callbacks.HttpCallbacks.respond_to: except EnvelopeError → catches every Exception",
        "worker.http_callbacks._checked_json: except (ValueError, RecursionError) → catches every Exception",
        "worker.settler.Settler._can_be_read: except RunFailed → catches every Exception",
        "worker.external_answers._read: except TypeError → catches every Exception",
        "worker.external_answers._payload: except (ValueError, RecursionError) → catches every Exception",
        "protocol.run_orders.read_order: except (ValueError, RecursionError) → catches every Exception",
        "protocol.run_orders.order_parts: except (ValueError, RecursionError) → catches every Exception",
        "recorded.read_answers._read: except ValidationError → catches every Exception",
        "recorded.remembered.ResultForm.text_of: except TypeError → catches every Exception",
        "recorded.remembered._plain_text: except (Unstorable, RecursionError) → catches every Exception",
        "aws.redriver.Redriver.redrive: except (FlowguardError, ValueError) → catches every Exception",
    ),
    "what proves nothing is not believed either: this saves the digest of what nobody signed": (
        "worker.trust.Trust._is_signed: required → forced true",
        "wire.signing.signed_attributes: not signer.is_on → forced false",
    ),
    "the same answer, found the slower way": (
        "protocol.run_orders.order_parts: _KEYS.search(place) is None → forced false",
        "aws.group_items.DynamoDBGroups._going_on: over.wait.plan is None → forced false",
        "worker.routing.Routes._arrival: payload is None → forced true",
        "wire.message._storable: text.isascii() → forced false",
        "worker.caller_answers.CallerAnswers.flush: not others → forced false",
        "protocol.outbox.Send._body_size: self.body.isascii() → forced false",
        "protocol.outbox._attribute_problem: attribute.type != 'String' → forced true",
        "aws.writes._is_unicode: text.isascii() → forced false",
    ),
    "what is no RunFailed is raised a step later, as itself: its problem is raised like any other": (
        "worker.routing._named_by: except RunFailed → catches every Exception",
    ),
    "a zone of the types that go on has an offset; the condition tells the type checker": (
        "payload.results._zone: offset is None → forced false",
    ),
    "nothing else is raised there": (
        "once_function._Guarded.results: except TypeError → catches every Exception",
        "once_function.OnceFunction._stored: except Unstorable → catches every Exception",
        "payload.call_keys.read_digest: except (Unstorable, TypeError, ValueError) → catches every Exception",
        "payload.call_keys._inside: except (ValueError, RecursionError) → catches every Exception",
        "payload.call_keys._as_text: except ValueError → catches every Exception",
        "payload.call_keys._checked: except UnicodeEncodeError → catches every Exception",
    ),
    "the record and its group are noted together": (
        "once_function.OnceFunction._answered: failed.append(record['messageId']); then stuck.update({group} if group is not None else ()) → the other way round",
    ),
    "a list in a message has fewer records than a number of ten digits counts": (
        "payload.call_keys._inside: len(part) < 10 → becomes len(part) <= 10",
    ),
    "a text has no attribute that is a key": ("payload.call_keys._inside: isinstance(value, str) → forced false (2)",),
    "nothing else is raised there: a send refuses by Reject, and json by the errors that are caught": (
        "worker.replies.reply: except Reject → catches every Exception",
        "worker.caller_answers.CallerAnswers._sends: except Reject → catches every Exception",
        "worker.undeliverable._said: except (ValueError, RecursionError) → catches every Exception",
    ),
    "the message of a later hop always says its version and its object: this is for the type checker": (
        "worker.undeliverable._next_hop: 1 → forced false",
        "worker.undeliverable._next_hop: ObjectId('') → forced false",
    ),
    "what is raised again is as good as not caught: of all other errors none is final": (
        "aws.packing.Packing._put: except (botocore_errors.ClientError, botocore_errors.ParamValidationError) → catches every Exception",
        "aws.packing.Packing._fetch: except botocore_errors.ClientError → catches every Exception",
    ),
    "the codes of a transaction have lost the 'None' that the passing ones have: they are never all of these": (
        "aws.faults.is_passing: codes <= PASSING_REASONS → becomes codes < PASSING_REASONS",
    ),
    "asks that are made together are of one kind: this is for the type checker": (
        "worker.driving.StoreCalls._of_all: isinstance(ask, Claiming) → forced true",
        "worker.driving.StoreCalls._of_all: isinstance(ask, Judging) → forced true",
        "worker.driving.StoreCalls._of_all: isinstance(ask, Committing) → forced true",
    ),
    "only what has found its stage may share calls: this is for the type checker": (
        "worker.batch.Batch._ask: (arrival := turn.arrival) is None → forced false",
        "worker.batch.Batch._ask: continue → left out",
    ),
    "a field that is no number or no end is a ValueError, and nothing else is raised there": (
        "protocol.run_history.Happened.from_text: except ValueError → catches every Exception",
    ),
    "where there is no room, no line is found from the end on; and it is never less than none": (
        "protocol.run_history.newest: room > 0 → forced true",
        "protocol.run_history.newest: room > 0 → becomes room >= 0",
    ),
    "the short way for names that stay as they are: what is cut is decided after it": (
        "protocol.run_history._line: len(stage) > longest or '\\n' in stage → forced true",
        "protocol.run_history._line: len(stage) > longest → becomes len(stage) >= longest",
    ),
    "the quick way for small items: the count gives them the longest history too": (
        "aws.history_room.room_after_commit: most <= _SURELY_BELOW → becomes most < _SURELY_BELOW",
    ),
    "a connection that is kept has the limit of the call before, and a new one that of its opening": (
        "aws.transport.connections.Connections.exchange: self._limit(connection, ends); then "
        "connection.sendall(request) → the other way round",
    ),
    "what the room is counted by stands in the update before both": (
        "aws.commit_call.CommitCalls.commit: _add_texts(update, texts); then _add_history(update, claim, commit, texts, key"
        ") → the other way round",
    ),
    "less than no room is none": (
        "aws.history_room.room_after_commit: max(0, min(LONGEST, _room(size), "
        "_room(*_after_next_claim(size, item, commit, sizes)))) → without 0",
        "aws.history_room.room_in_claimed: max(0, min(LONGEST, _room(size))) → without 0",
    ),
    "an item without a state is counted five bytes larger, which is within what is unsure": (
        "aws.history_room.room_in_claimed: state → forced true",
    ),
    "of no askers none is counted": ("aws.history_room._kept_callers: item.askers → forced true",),
    "the quick way to the bytes of a text that has one for each character": (
        "aws.history_room._bytes: text.isascii() → forced false",
    ),
    "what is not there may be removed as well": ("aws.commit_call._add_history: claim.item.history → forced true",),
    "a run gives up once: one that has failed before ends": (
        "aws.history_room._kept: commit.failed is None → forced true",
    ),
    "what is no answer of DynamoDB is raised in any case: then as another error, and the record stays too": (
        "aws.history_rows.tell: except botocore_errors.ClientError → catches every Exception",
        "aws.cancellations.DynamoDBCancellations._noted: except botocore_errors.ClientError → catches every Exception",
    ),
    "nothing else is raised where an error is told apart": (
        "aws.faults.is_outage: except botocore_errors.ErrorsNotLoaded → catches every Exception",
    ),
    "only an object has a source: this is for the type checker": (
        "wire.http_request.read_http_request: not isinstance(event, dict) → forced false",
    ),
    "a moment until which nothing is asked again comes with keys or with a problem: this is for the type checker": (
        "wire.signing.Keyring.keys: self._problem is not None → forced true",
    ),
    "what is acked has found its stage: this is for the type checker": (
        "worker.dispatch._send: ending.arrival is not None → forced true",
    ),
    "without a stage no time is noted, and nobody asks for one: this is for the type checker": (
        "worker.batch.Batch._note_time: arrival.stage is not None → forced true",
        "worker.batch.Batch._has_time: arrival.stage is not None → forced true",
        "worker.batch._timeout: arrival.stage is None → forced false",
    ),
    "an invocation says at both ends what time is left, or at neither: each part alone is for the type checker": (
        "worker.batch.Batch._note_time: before is not None → forced true",
        "worker.batch.Batch._note_time: (after := self._budget.remaining()) is not None → forced true",
    ),
    "what is claimed has found its stage: this is for the type checker": (
        "worker.lifetimes.longest_lease: arrival.stage is not None → forced true",
    ),
    "a letter that is judged has a message: this is for the type checker": (
        "worker.redrive._done: m is not None → forced true",
        "worker.redrive._done: m is not None → forced true (2)",
    ),
    "no other error is raised there": (
        "flow.Flow._object: except RunFailed → catches every Exception",
        "wire.resumed_body.ResumedBody.read: except (ValueError, RecursionError) → catches every Exception",
    ),
    "of a record that has no time left to be read none is left to be carried out: this is for the type checker": (
        "worker.batch.Batch._ending: arrival is None → forced false",
    ),
    "who asks for work of another wants an answer: this is for the type checker": (
        "worker.caller_answers.CallerAnswers.of_work_of_another: caller is None → forced false",
    ),
    "a first hop without an item is claimed, and of a later one the item is not looked at": (
        "worker.turned_away.TurnedAway.ending: refused.item is None → forced false",
    ),
    "events of botocore with different names are heard in whatever order": (
        "aws.botocore_time.end_in_time: events.register_last(created, _begin); then events.register_first(retried, _refuse_late) → the other way round",
    ),
    "a first hop without its stage was refused before: this is for the type checker": (
        "worker.trust.trusted_payload: stage is not None → forced true",
    ),
}

HARMLESS: Final = {name: reason for reason, names in _BY_REASON.items() for name in names}
"""The reason, by the mutant's name."""
