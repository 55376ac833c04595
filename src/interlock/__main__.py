"""`python -m interlock` is the `interlock` command."""

from interlock.cli.main import main

raise SystemExit(main())
