"""From the text in a token's field to the place it leads to: `normalize`, `links_in`, `route`.

Owns the identity of URLs. It never looks up a name, opens a connection or reads a store.
"""

from workers.social_recording.routing.addresses import leads_inside
from workers.social_recording.routing.description import Description, descriptions_of
from workers.social_recording.routing.hosts import is_below_hosting_suffix, registrable_domain
from workers.social_recording.routing.normalize import TEXT_MAX, Normalized, links_in, normalize
from workers.social_recording.routing.rejection import Rejection
from workers.social_recording.routing.route import Route
from workers.social_recording.routing.router import route

__all__ = [
    "TEXT_MAX",
    "Description",
    "Normalized",
    "Rejection",
    "Route",
    "descriptions_of",
    "is_below_hosting_suffix",
    "leads_inside",
    "links_in",
    "normalize",
    "registrable_domain",
    "route",
]
