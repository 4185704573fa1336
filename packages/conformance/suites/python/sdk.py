"""The half of the SDK that the job asks for. Rows take what talks to a server from here, and plain types from `e2b`."""

import json
import os

ASYNCHRONOUS = json.loads(os.environ["CONFORMANCE_JOB"])["client"].endswith("-async")

if ASYNCHRONOUS:
    from blocking import Sandbox, Template, call_generated, face
else:
    from e2b import Sandbox, Template
    from e2b.api.client_sync import get_api_client

    def face(value):
        """What a row sees of a value of the SDK."""
        return value

    def call_generated(endpoint, path, config, body):
        """Calls an endpoint of the generated client."""
        return endpoint.sync_detailed(path, client=get_api_client(config), body=body)


__all__ = ["ASYNCHRONOUS", "Sandbox", "Template", "call_generated", "face"]
