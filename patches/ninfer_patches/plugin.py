"""Entry point of vLLM's general plugins; imports nothing until it is called.

The host logs and ignores an exception while a plugin is imported, but not one that `register` raises.
"""


def register() -> None:
    """Bind the command line option, and everything else if the environment or command line selects the plugin.

    Called by the host in every process, possibly several times.

    Errors: UnsupportedHost, PatchDrift: start-up stops with a message that names the seam.
    """
    from ninfer_patches.activation import activate_if_selected, offer

    offer()
    activate_if_selected()
