"""A process that a test of `pytest --tenancy` started: the product has tenancy on in it too."""

import os

if "TESTS_WITH_TENANCY" in os.environ:
    from tests.tenancy.imports import switch_on

    switch_on()
