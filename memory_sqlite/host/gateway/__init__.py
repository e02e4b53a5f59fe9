"""The memory methods of a host's gateway, as plain functions of a request and a connection.

``GatewayMethods.call(method, params, connection)`` gives the response as JSON-ready values. Not here: a wire, and
authenticating a client; whoever has one says who it is (``Connection``).
"""
