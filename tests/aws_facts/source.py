"""What the package's source says of AWS: numbers, codes of errors, words of its interfaces."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import botocore.session
from botocore.retries.standard import ThrottledRetryableChecker, TransientRetryableChecker

from tests.trees import nodes, parsed

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "flowguard"

SERVICES: Final = (
    *("dynamodb", "sqs", "sns", "events", "lambda", "s3", "scheduler", "ssm", "secretsmanager", "kms", "iam", "sts"),
    *("logs", "cloudwatch", "cloudformation", "kinesis"),
)
"""The services that flowguard calls or deploys to."""

_CODE_LIKE: Final = re.compile(
    r"(KMS\.)?[A-Z][A-Za-z0-9]+(Exception|Exceeded|Denied|DoesNotExist|NotFound|NotDistinct|TooLong|TooLarge|Throttled"
    r"|Failed|Error|Conflict|Mismatch|Inflight|Invalid|LimitExceeded|Failure|Expired|Skewed)"
)


_OF_NO_MODEL: Final = {
    *("InternalError", "InternalFailure", "ServiceUnavailable", "SlowDown", "RequestTimeout", "OperationAborted"),
    *("InvalidBucketState", "NoSuchLifecycleConfiguration", "PreconditionFailed", "EntityTooLarge", "MissingParameter"),
    *("AuthorizationHeaderMalformed", "SignatureDoesNotMatch", "InvalidAccessKeyId", "ExpiredToken", "OptInRequired"),
    *("UnrecognizedClientException", "NotAuthorized", "AccessDenied", "IncompleteSignature", "UnsupportedOperation"),
    *("InvalidParameterValue", "InvalidParameterCombination", "MalformedQueryString", "MissingAction", "OverLimit"),
}
"""Codes of S3 and of what all services have in common.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
"""


class Number(NamedTuple):
    """A number that stands in the source: a constant of a module, or one in the middle of something."""

    place: str
    value: Any
    line: int


class Word(NamedTuple):
    """A text of the source, with its module and line."""

    module: str
    text: str
    line: int


@functools.cache
def modules() -> dict[str, ast.Module]:
    """The parsed modules by their path inside the package. The table itself is none of them."""
    paths = sorted(path for path in PACKAGE.rglob("*.py"))
    named = {path.relative_to(PACKAGE).as_posix(): path for path in paths}
    return {
        name: parsed(path.read_text(encoding="utf-8"))
        for name, path in named.items()
        if not name.startswith(("aws_facts/", "probe/"))
    }


@functools.cache
def names_of(module: str) -> set[str]:
    """What a module defines, the methods of its classes with the names of these."""
    found: set[str] = set()
    for node in modules()[module].body:
        match node:
            case ast.ClassDef(name=name, body=body):
                found |= {name, *(f"{name}.{one.name}" for one in body if isinstance(one, ast.FunctionDef))}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {one.id for one in targets if isinstance(one, ast.Name)}
            case _:
                pass
    return found


def constants(module: str, tree: ast.Module) -> Iterator[Number]:
    """The constants of a module whose value is made of numbers alone: a number, a tuple of them, a product."""
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case _:
                continue
        if re.fullmatch("_?[A-Z][A-Z0-9_]*", name) and (numbers := _numbers(value)):
            yield Number(f"{module}:{name}", numbers, node.lineno)


def _numbers(value: ast.expr) -> tuple[int | float, ...]:
    """The numbers of an expression that has nothing but numbers. Empty for any other."""
    match value:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return (number,)
        case ast.Tuple(elts=parts):
            found = [_numbers(part) for part in parts]
            return tuple(one for part in found for one in part) if all(found) else ()
        case ast.BinOp() | ast.UnaryOp():
            try:
                return (eval(compile(ast.Expression(value), "", "eval"), {"__builtins__": {}}),)  # noqa: S307
            except (NameError, TypeError):
                return ()
        case ast.Call(func=ast.Name(id="timedelta"), keywords=[ast.keyword(value=ast.Constant(value=int() as number))]):
            return (number,)
        case _:
            return ()


def bare_numbers(module: str, tree: ast.Module) -> Iterator[Number]:
    """The integers in the middle of functions and classes, each with the function or class that it stands in.

    How much a cache holds is none of them.
    """
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            sizes = {id(one.value) for one in nodes(node) if isinstance(one, ast.keyword) and one.arg == "maxsize"}
            for inner in nodes(node):
                if isinstance(inner, ast.Constant) and type(inner.value) is int and id(inner) not in sizes:
                    yield Number(f"{module}:{node.name}", inner.value, inner.lineno)


@functools.cache
def texts(module: str, tree: ast.Module) -> tuple[Word, ...]:
    """The texts and the names of arguments of a module, docstrings left out."""
    return tuple(_texts(module, nodes(tree)))


def _texts(module: str, there: Sequence[ast.AST]) -> Iterator[Word]:
    docstrings = {id(node.value) for node in there if isinstance(node, ast.Expr)}
    for node in there:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield Word(module, node.value, node.lineno)
        elif isinstance(node, ast.keyword) and node.arg is not None:
            yield Word(module, node.arg, node.value.lineno)


@functools.cache
def _models() -> tuple[frozenset[str], frozenset[str]]:
    """The error codes, and the names of members, of all services' models. No model has the codes of every service."""
    throttled: Any = ThrottledRetryableChecker
    passing: Any = TransientRetryableChecker
    codes = {*throttled._THROTTLED_ERROR_CODES, *passing._TRANSIENT_ERROR_CODES, *_OF_NO_MODEL}
    members: set[str] = set()
    session = botocore.session.get_session()
    for service in SERVICES:
        model = session.get_service_model(service)
        for name in model.shape_names:
            shape: Any = model.shape_for(name)
            if shape.type_name != "structure":
                continue
            if shape.metadata.get("exception"):
                codes |= {name, shape.error_code or name}
            else:
                members |= set(shape.members)
    return frozenset(codes), frozenset(members)


def is_code(text: str) -> bool:
    """Whether a text is the code of an error: one of a model's, or one that looks like it."""
    return text in _models()[0] or _CODE_LIKE.fullmatch(text) is not None


def is_member(text: str) -> bool:
    """Whether a text is the name of a parameter or of a part of an answer."""
    return text[:1].isupper() and text in _models()[1]


@functools.cache
def _methods() -> dict[str, str]:
    """The operations of all services by the names of boto3's methods."""
    session = botocore.session.get_session()
    operations = (name for service in SERVICES for name in session.get_service_model(service).operation_names)
    return {botocore.xform_name(name): name for name in operations}


@functools.cache
def calls(module: str, tree: ast.Module) -> tuple[Word, ...]:
    """The operations that a module calls by methods of boto3's clients, or names as these methods are named."""
    return tuple(
        Word(module, methods[name], node.lineno)
        for methods in [_methods()]
        for node in nodes(tree)
        if isinstance(node, ast.Call | ast.Constant) and (name := _method(node)) in methods
    )


def _method(node: ast.Call | ast.Constant) -> str:
    match node:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name
        case ast.Constant(value=str() as name) if "_" in name:
            return name
        case _:
            return ""


def resource_types(module: str, tree: ast.Module) -> Iterator[Word]:
    """The types of CloudFormation's resources that a module names."""
    return (word for word in texts(module, tree) if re.fullmatch(r"AWS::\w+::\w+", word.text))
