"""The sixth race: hops of few keys, whose stage lets few of them be at work at once."""
