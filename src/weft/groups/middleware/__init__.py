"""Middleware that comes with weft: `import weft as w`, then `w.middleware.timed()`; outermost first."""

from weft.groups.middleware.access import only_for
from weft.groups.middleware.around import Around, around
from weft.groups.middleware.lines import logged
from weft.groups.middleware.rates import RateLimited, rate_limited
from weft.groups.middleware.redacting import redacted
from weft.groups.middleware.timing import timed

__all__ = ["Around", "RateLimited", "around", "logged", "only_for", "rate_limited", "redacted", "timed"]
