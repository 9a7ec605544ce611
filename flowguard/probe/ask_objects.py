"""What S3 and the stores of keys do. What IAM does with a new permission."""

from __future__ import annotations

from typing import Any

from flowguard.probe.lab import Lab
from flowguard.probe.made import allowed, bucket, function, grant, queue, queue_arn, table, tags
from flowguard.probe.saw import Saw, asks


@asks("s3-missing-key", "s3")
def missing_key(lab: Lab) -> Saw:
    """Read an object that does not exist."""
    code = lab.code_of("s3", "get_object", Bucket=bucket(lab), Key="gone")
    return Saw(code == "NoSuchKey", code or "found")


@asks("s3-head-has-no-code", "s3")
def head_has_no_code(lab: Lab) -> Saw:
    """Ask for the head of an object that does not exist."""
    code = lab.code_of("s3", "head_object", Bucket=bucket(lab), Key="gone")
    return Saw(code == "404", code or "found")


@asks("s3-head-bucket", "s3")
def head_bucket(lab: Lab) -> Saw:
    """Ask for the head of a bucket that does not exist."""
    code = lab.code_of("s3", "head_bucket", Bucket=lab.name())
    return Saw(code == "404", code or "found")


@asks("s3-missing-bucket", "s3")
def missing_bucket(lab: Lab) -> Saw:
    """Read from a bucket that does not exist."""
    code = lab.code_of("s3", "get_object", Bucket=lab.name(), Key="gone")
    return Saw(code == "NoSuchBucket", code or "found")


@asks("s3-consistent", "s3")
def consistent(lab: Lab) -> Saw:
    """Write an object twice and delete it. It is read each time."""
    name = bucket(lab)
    seen = []
    for body in (b"1", b"2"):
        lab.ask("s3", "put_object", Bucket=name, Key="k", Body=body)
        seen.append(lab.ask("s3", "get_object", Bucket=name, Key="k")["Body"].read())
    lab.ask("s3", "delete_object", Bucket=name, Key="k")
    gone = lab.code_of("s3", "get_object", Bucket=name, Key="k")
    return Saw(seen == [b"1", b"2"] and gone == "NoSuchKey", f"read {seen}, then {gone}")


@asks("s3-key-size", "s3")
def key_size(lab: Lab) -> Saw:
    """Write under keys of 1,024 and 1,025 bytes."""
    name = bucket(lab)
    fits, over = (lab.code_of("s3", "put_object", Bucket=name, Key="k" * n, Body=b"x") for n in (1_024, 1_025))
    return Saw(not fits and over == "KeyTooLongError", f"1,024: {fits or 'taken'}; 1,025: {over or 'taken'}")


@asks("s3-if-none-match", "s3")
def if_none_match(lab: Lab) -> Saw:
    """Write an object twice under the condition that it is not there."""
    name = bucket(lab)
    first, second = (lab.code_of("s3", "put_object", Bucket=name, Key="k", Body=b"x", IfNoneMatch="*") for _ in "12")
    return Saw(not first and second == "PreconditionFailed", f"{first or 'taken'}, then {second or 'taken'}")


@asks("s3-expected-owner", "s3")
def expected_owner(lab: Lab) -> Saw:
    """Write to a bucket as if it were another account's."""
    given = {"Bucket": bucket(lab), "Key": "k", "ExpectedBucketOwner": "000000000000"}
    code = lab.code_of("s3", "put_object", Body=b"x", **given)
    return Saw(code == "AccessDenied", code or "taken")


_READS_GONE = """
import boto3, botocore

def handler(event, context):
    try:
        boto3.client("s3").get_object(Bucket=event["bucket"], Key="gone")
    except botocore.exceptions.ClientError as error:
        print("SAW", error.response["Error"]["Code"])
        return error.response["Error"]["Code"]
"""


def _invoked(lab: Lab, name: str, payload: bytes) -> str:
    answer = lab.ask("lambda", "invoke", FunctionName=name, Payload=payload)
    return str(answer["Payload"].read().decode()).strip('"')


@asks("s3-missing-key-without-list", "s3", "lambda", "iam", "logs", cents=0.1, seconds=60)
def missing_key_without_list(lab: Lab) -> Saw:
    """Let a function that may read a bucket's objects and not list it read an object that does not exist."""
    name = bucket(lab)
    reader = function(lab, _READS_GONE, [allowed("s3:GetObject", on=f"arn:aws:s3:::{name}/*")])
    result = _invoked(lab, reader, b'{"bucket": "' + name.encode() + b'"}')
    return Saw(result == "AccessDenied", result)


_WRITES = """
import boto3, botocore, time

def handler(event, context):
    sqs = boto3.client("sqs")
    begun, codes = time.time(), []
    while time.time() - begun < event["seconds"]:
        try:
            sqs.send_message(QueueUrl=event["queue"], MessageBody="x")
            codes.append("taken")
        except botocore.exceptions.ClientError as error:
            codes.append(error.response["Error"]["Code"])
        if codes[-1] == event["until"]:
            return f"{time.time() - begun:.1f} s, {len(codes)} calls, {sorted(set(codes))}"
        time.sleep(0.25)
    return f"never in {event['seconds']} s: {sorted(set(codes))}"
"""


@asks("iam-eventually-consistent", "iam", "sqs", "lambda", "logs", cents=0.2, seconds=180)
def permission_delay(lab: Lab) -> Saw:
    """Give a function's role a permission, and let the function try until it is allowed."""
    url = queue(lab)
    name = function(lab, _WRITES, Timeout=120)
    arn = lab.ask("lambda", "get_function_configuration", FunctionName=name)["Role"]
    logs = allowed("logs:CreateLogStream", "logs:PutLogEvents")
    grant(lab, arn, [logs, allowed("sqs:SendMessage", on=queue_arn(lab, url))])
    payload = f'{{"queue": "{url}", "seconds": 100, "until": "taken"}}'.encode()
    result = _invoked(lab, name, payload)
    return Saw("AccessDenied" in result and "taken" in result, f"allowed after {result}")


# -- keys


@asks("ssm-missing-parameter", "ssm")
def missing_parameter(lab: Lab) -> Saw:
    """Read a parameter that does not exist."""
    code = lab.code_of("ssm", "get_parameter", Name=f"/{lab.name()}")
    return Saw(code == "ParameterNotFound", code or "found")


def _parameter(lab: Lab, value: str, kind: str = "String") -> tuple[str, str]:
    """Make a parameter and return its name and the code of the error."""
    name = f"/{lab.name()}"
    lab.undo(f"parameter {name}", lambda: lab.clean("ssm", "delete_parameter", Name=name))
    return name, lab.code_of("ssm", "put_parameter", Name=name, Value=value, Type=kind, Tags=tags(lab))


@asks("ssm-parameter-size", "ssm")
def parameter_size(lab: Lab) -> Saw:
    """Put parameters of 4,096 and 4,097 characters."""
    (_, fits), (_, over) = _parameter(lab, "x" * 4_096), _parameter(lab, "x" * 4_097)
    return Saw(not fits and bool(over), f"4,096: {fits or 'taken'}; 4,097: {over or 'taken'}")


@asks("ssm-decryption", "ssm")
def decryption(lab: Lab) -> Saw:
    """Read a SecureString with decryption and without."""
    name, _ = _parameter(lab, "secret", "SecureString")
    clear = lab.ask("ssm", "get_parameter", Name=name, WithDecryption=True)["Parameter"]["Value"]
    sealed = lab.ask("ssm", "get_parameter", Name=name)["Parameter"]["Value"]
    return Saw(clear == "secret" and sealed != "secret", f"in clear: {clear == 'secret'}; without: sealed")


def _secret(lab: Lab, value: str) -> str:
    name = lab.name()
    given = {"SecretId": name, "ForceDeleteWithoutRecovery": True}
    lab.undo(f"secret {name}", lambda: lab.clean("secretsmanager", "delete_secret", **given))
    lab.ask("secretsmanager", "create_secret", Name=name, SecretString=value, Tags=tags(lab))
    return name


@asks("secrets-current", "secretsmanager", cents=0.1)
def current_secret(lab: Lab) -> Saw:
    """Change a secret and read it, and the version before it."""
    name = _secret(lab, "one")
    lab.ask("secretsmanager", "put_secret_value", SecretId=name, SecretString="two")

    def read(**params: Any) -> str:
        value: str = lab.ask("secretsmanager", "get_secret_value", SecretId=name, **params)["SecretString"]
        return value

    values = (read(), read(VersionStage="AWSPREVIOUS"))
    return Saw(values == ("two", "one"), f"current and previous: {values}")


@asks("secret-deleted-later", "secretsmanager", cents=0.1)
def secret_deleted_later(lab: Lab) -> Saw:
    """Let a secret be deleted in a week, describe it and read its value."""
    name = _secret(lab, "one")
    lab.ask("secretsmanager", "delete_secret", SecretId=name, RecoveryWindowInDays=7)
    described = lab.ask("secretsmanager", "describe_secret", SecretId=name)
    code = lab.code_of("secretsmanager", "get_secret_value", SecretId=name)
    return Saw("DeletedDate" in described and code == "InvalidRequestException", f"described; its value: {code}")


@asks("secrets-missing", "secretsmanager", cents=0.1)
def missing_secret(lab: Lab) -> Saw:
    """Read a secret that does not exist."""
    code = lab.code_of("secretsmanager", "get_secret_value", SecretId=lab.name())
    return Saw(code == "ResourceNotFoundException", code or "found")


@asks("partiql-permissions", "dynamodb", "lambda", "iam", "logs", cents=0.1, seconds=80)
def partiql_permissions(lab: Lab) -> Saw:
    """Let a function that may update items and not execute statements execute one."""
    name = table(lab)
    source = _EXECUTES.replace("TABLE", name)
    executes = function(
        lab, source, [allowed("dynamodb:UpdateItem", "dynamodb:GetItem", on=f"arn:aws:dynamodb:*:*:table/{name}")]
    )
    result = _invoked(lab, executes, b"{}")
    return Saw("AccessDenied" in result, result)


_EXECUTES = """
import boto3, botocore

def handler(event, context):
    text = "UPDATE \\"TABLE\\" SET n = 1 WHERE pk = 'k'"
    try:
        found = boto3.client("dynamodb").batch_execute_statement(Statements=[{"Statement": text}])
        return str([one.get("Error", {}).get("Code") for one in found["Responses"]])
    except botocore.exceptions.ClientError as error:
        return "whole: " + error.response["Error"]["Code"]
"""
