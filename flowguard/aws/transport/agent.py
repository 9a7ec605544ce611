"""What a request says of its sender."""

from __future__ import annotations

import sys
from typing import Final

import botocore

AGENT: Final = (
    f"Botocore/{botocore.__version__} lang/python#{sys.version_info.major}.{sys.version_info.minor} lib/flowguard"
)
"""The header ``User-Agent``, made once. botocore would put it together anew for each request."""
