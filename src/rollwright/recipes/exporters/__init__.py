"""What a run measures, sent elsewhere while it trains: one file a service, each through the service's own client.

Nothing here can stop or slow a run: a client works on a thread of its own behind a bounded queue.
"""
