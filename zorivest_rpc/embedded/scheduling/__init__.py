"""Scheduled pipelines: policies that a person approved run on time, query the journal, and deliver reports."""
