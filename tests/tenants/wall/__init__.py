"""Tests of the wall between tenants: what a call for one of them can reach, learn and leave behind."""
