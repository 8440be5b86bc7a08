"""`python -m tests.mutants`: report the mutants that no test notices."""

from __future__ import annotations

import argparse
import sys
import time

from tests.mutants.run import load_equivalents, load_plans, sample, try_module


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "module", nargs="*", help="modules to try, by a part of their path; default: all of modules.json"
    )
    parser.add_argument("--count", type=int, default=20, help="mutants a module (default 20)")
    parser.add_argument("--all", action="store_true", help="every mutant of each module")
    parser.add_argument("--seed", type=int, default=0, help="which mutants are drawn")
    parser.add_argument("--workers", type=int, default=2, help="copies that run at once")
    parser.add_argument("--list", action="store_true", help="show the mutants without running a test")
    chosen = parser.parse_args()
    plans = [plan for plan in load_plans() if not chosen.module or any(part in plan.module for part in chosen.module)]
    if not plans:
        parser.error(f"modules.json names no module like {' '.join(chosen.module)}")
    equivalents = load_equivalents()
    noticed = equivalent = survived = 0
    for plan in plans:
        mutants = sample(plan, None if chosen.all else chosen.count, chosen.seed)
        print(f"{plan.module}: {len(mutants)} mutants", flush=True)
        if chosen.list:
            for mutant in mutants:
                print(f"  {mutant.line}: {mutant.before}  ->  {mutant.after}")
            continue
        started = time.monotonic()
        for finding in try_module(plan, mutants, equivalents.get(plan.module, {}), chosen.workers):
            noticed += finding.noticed_by is not None
            equivalent += finding.reason is not None
            survived += finding.is_survivor
            if finding.is_survivor:
                mutant = finding.mutant
                print(f"  SURVIVED {plan.module}:{mutant.line} in {mutant.function}", flush=True)
                print(f"    - {mutant.before}\n    + {mutant.after}", flush=True)
        print(f"  {time.monotonic() - started:.0f} s", flush=True)
    print(f"{noticed} noticed, {equivalent} judged equivalent, {survived} survived (seed {chosen.seed})")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
