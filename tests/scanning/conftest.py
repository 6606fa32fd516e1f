"""The cluster of the engines' tests."""

from engines.conftest import client as client
