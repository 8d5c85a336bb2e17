"""What torchtally raises when a user's input, not the program, is at fault."""


class TallyError(Exception):
    """A mistake the user can mend: the message says how. `exit_code` is what the command line ends with."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
