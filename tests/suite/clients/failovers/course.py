"""What clients and failovers know of each other: what each client has got, and when writes may be lost."""

import threading
from contextlib import contextmanager

# A client that gets nothing for longer hangs. The machine may be busy with other work.
REPLY_MAX_S = 120


class Wrong(Exception):
    """A client hangs, a reply is wrong, or the servers do not agree."""


class Course:
    def __init__(self, clients, counts_losses=True):
        self.clients = clients
        self._moved = threading.Condition()
        self._replies = dict.fromkeys(clients, 0)
        self._values = dict.fromkeys(clients, 0)
        self._errors = dict.fromkeys(clients)
        self._is_over = False
        self._report = None
        self._counts_losses = counts_losses
        # It is odd while acknowledged writes may be lost.
        self.losses = 0

    def pause(self, replies):
        """Waits until every client has got that many more replies, or errors."""
        self._wait_for(self._replies, replies, "hangs")

    def demand(self, values):
        """Waits until every client has got that many more replies that are no errors."""
        self._wait_for(self._values, values, "hangs, or gets nothing but errors")

    def _wait_for(self, counts, more, ill):
        with self._moved:
            goals = {client: count + more for client, count in counts.items()}

            def is_done():
                return self._report or all(counts[client] >= goal for client, goal in goals.items())

            if not self._moved.wait_for(is_done, REPLY_MAX_S):
                raise Wrong(f"a client {ill}: it has {counts} of {goals}; last errors: {self._errors}")
        self.check()

    @contextmanager
    def lose(self):
        """Acknowledged writes may be lost in this block."""
        self.losses += self._counts_losses
        yield
        self.losses += self._counts_losses

    def served(self, client, error, report):
        """Counts a reply, or an error in its place. The report says why no real server could give it."""
        with self._moved:
            self._replies[client] += 1
            self._values[client] += error is None
            self._errors[client] = error or self._errors[client]
            self._report = self._report or report
            self._moved.notify_all()

    def check(self):
        if self._report:
            raise Wrong(self._report)

    def goes_on(self):
        return not self._is_over and self._report is None

    def end(self):
        self._is_over = True

    def summary(self):
        return ", ".join(
            f"{client} {self._values[client]} replies and {count - self._values[client]} errors"
            for client, count in self._replies.items()
        )
