"""`python -m tests.conformance` runs the official suite."""

from __future__ import annotations

import sys

from tests.conformance.run import main

sys.exit(main())
