"""Authorities that decide what is right without the code under test."""
