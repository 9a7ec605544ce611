"""Which client makes the calls of this process, and why."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Final

from flowguard.aws.transport.patched import why_watched

VARIABLE: Final = "FLOWGUARD_CLIENT"
AUTO, LEAN = "auto", "lean"

ENDPOINT: Final = "AWS_ENDPOINT_URL"
_ADDRESS: Final = r"https?://[a-z0-9.-]+(:(?!(80|443)/?$)[0-9]+)?/?"
"""An endpoint for all services that both clients understand alike, such as that of an emulator.

botocore signs no port that is the scheme's own."""

_REGIONS: Final = {
    "(us|eu|ap|sa|ca|me|af|il|mx)-[a-z]+-[0-9]+": "amazonaws.com",
    "us-gov-[a-z]+-[0-9]+": "amazonaws.com",
    "cn-[a-z]+-[0-9]+": "amazonaws.com.cn",
}
"""The regions of the standard partitions, and how the names of their endpoints end."""

_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
CONTAINER: Final = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
"""Where ECS and functions with SnapStart get their credentials from."""

_FILES: Final = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}
_MODELS: Final = "~/.aws/models"

_KNOWN: Final = frozenset(
    {
        *_KEYS,
        *CONTAINER,
        *_FILES,
        "AWS_CA_BUNDLE",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "AWS_DEFAULT_REGION",
        "AWS_DISABLE_HOST_PREFIX_INJECTION",
        "AWS_EXECUTION_ENV",
        "AWS_REGION",
        "AWS_SESSION_TOKEN",
        "AWS_XRAY_CONTEXT_MISSING",
        "AWS_XRAY_DAEMON_ADDRESS",
    }
)
"""The variables of AWS that are understood here, or change nothing. Lambda sets more, which tell of the function.
botocore's own begin with BOTO, such as that of its plugins."""

_RUNTIME: Final = ("AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_RUNTIME_API")
"""Variables that Lambda sets. Both have to be there: tests set the first one, too."""

_LAMBDA, _WRAPPER = "AWS_LAMBDA_", "AWS_LAMBDA_EXEC_WRAPPER"
_NETWORK: Final = frozenset({"all_proxy", "http_proxy", "https_proxy", "requests_ca_bundle"})
"""Variables of proxies and certificates, in lower case. botocore reads them, the lean client does not."""


def endpoint_of(service: str, region: str) -> str | None:
    """Return where the service is in a region of a standard partition. None for any other region."""
    for pattern, suffix in _REGIONS.items():
        if re.fullmatch(pattern, region):
            return f"https://{service}.{region}.{suffix}"
    return None


def endpoint_in(environment: Mapping[str, str], service: str) -> str | None:
    """Return where a process with this environment calls a service, where botocore is not needed."""
    return environment.get(ENDPOINT) or endpoint_of(service, environment["AWS_DEFAULT_REGION"])


def why_botocore(environment: Mapping[str, str]) -> str | None:
    """Return why botocore makes the calls of a process with this environment. None where the lean client does.

    In functions of Lambda the lean client needs not be asked for. Elsewhere a process may load engines of tests, or ask
    for calls of its own, at any time. Nor are calls made at an endpoint of the environment's own where nobody asks.
    """
    asked = environment.get(VARIABLE, AUTO)
    if asked == AUTO and not all(name in environment for name in _RUNTIME):
        return f"this is no function of Lambda, and {VARIABLE} does not say {LEAN}"
    if asked not in (AUTO, LEAN):
        return f"{VARIABLE} does not say {LEAN}"
    return (
        _of_variables(environment, has_asked=asked == LEAN)
        or _of_files(environment)
        or why_watched(sys.modules, sys.meta_path)
    )


def _of_variables(environment: Mapping[str, str], *, has_asked: bool) -> str | None:
    for name in sorted(environment):
        if name.lower() in _NETWORK:
            return f"{name} is set"
        is_known = name in _KNOWN or (name.startswith(_LAMBDA) and name != _WRAPPER)
        if name == ENDPOINT and has_asked:
            is_known = re.fullmatch(_ADDRESS, environment[name]) is not None
        if name.startswith(("AWS_", "BOTO")) and not is_known:
            return f"{name} is set"
    if endpoint_of("dynamodb", environment.get("AWS_DEFAULT_REGION", "")) is None:
        return "AWS_DEFAULT_REGION names no region of a standard partition"
    keys = [environment.get(name, "") for name in _KEYS]
    if any(keys):
        keys.append(environment.get("AWS_SESSION_TOKEN", "-"))
        is_whole = all(key.isascii() and key.isprintable() and " " not in key for key in keys) and all(keys)
        return None if is_whole else "the access key is not whole"
    return None if any(name in environment for name in CONTAINER) else "no access key is set"


def _of_files(environment: Mapping[str, str]) -> str | None:
    for place in (*(environment.get(name, usual) for name, usual in _FILES.items()), _MODELS):
        if place != os.devnull and os.path.exists(os.path.expanduser(place)):  # noqa: PTH110, PTH111 - loads no pathlib
            return f"there is {place}"
    return None
