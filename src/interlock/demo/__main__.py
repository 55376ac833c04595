"""`python -m interlock.demo` is `interlock demo` without the rest of the command line."""

import sys

from interlock.core.errors import InterlockError
from interlock.demo import main

try:
    code = main()
except InterlockError as error:
    sys.stderr.write(f"{error.sentence}\n{error.hint}\n")
    code = error.exit_code
sys.exit(code)
