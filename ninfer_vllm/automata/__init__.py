"""One automaton library: sets of characters, regular expressions, automata."""
