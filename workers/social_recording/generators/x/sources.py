"""Which of X's sources is asked for what, and in which order.

Posts are to be had for nothing; accounts and communities are not. A post, an account or a community costs
0.00015 to 0.0002 dollars at twitterapi.io and 0.005 to 0.010 at X's own API, which also bills what it
includes. So twitterapi.io is asked where both keys are there. It shows more as well: who made a community.
"""

from __future__ import annotations

from workers.http.client import OutboundClient
from workers.settings import Settings
from workers.social_recording.generators.generator import Generator
from workers.social_recording.generators.x.api import XAPIGenerator
from workers.social_recording.generators.x.posts import XPostGenerator
from workers.social_recording.generators.x.twitterapiio import TwitterAPIIOGenerator

# The first one that has its key is asked.
_PAID = (TwitterAPIIOGenerator, XAPIGenerator)


def _post_generator(http: OutboundClient, settings: Settings) -> Generator:
    return XPostGenerator(http, settings, paid=[build(http, settings) for build in _PAID])


X_GENERATORS = (_post_generator, *_PAID)
