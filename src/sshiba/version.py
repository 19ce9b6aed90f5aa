"""The version of the library, and the command that installs one of its extras."""

__version__ = "0.1.0"


def how_to_install(extra: str) -> str:
    """For messages, where a package is missing: the command. The library is on no registry."""
    return f"pip install '.[{extra}]' in the folder of the source"
