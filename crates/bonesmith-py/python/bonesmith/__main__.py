"""``python -m bonesmith``: the command line."""

import sys

from bonesmith._command import main

sys.exit(main())
