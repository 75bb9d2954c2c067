"""In which order things that need each other are built."""


def build_order(needs):
    """`needs` maps a name to the names it needs first. Gives every name once, what is needed before what needs it.

    Of several that could come next, the first by alphabet does.
    """
    done = []
    for name in needs:
        for needed in needs[name]:
            if needed not in done:
                done.append(needed)
        if name not in done:
            done.append(name)
    return done
