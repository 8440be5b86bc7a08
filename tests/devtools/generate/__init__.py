"""The makers of artefacts, on recordings that are made up."""
