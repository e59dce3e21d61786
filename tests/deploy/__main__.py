"""python -m tests.deploy --update: render the golden files anew."""

import argparse

from tests.deploy.goldens import update

parser = argparse.ArgumentParser(prog="python -m tests.deploy")
parser.add_argument("--update", action="store_true", required=True, help="Render the golden files anew.")
parser.parse_args()
print("changed:", ", ".join(update()) or "nothing")
