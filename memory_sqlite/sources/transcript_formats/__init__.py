"""Transcripts of hosts, one small module per format. Nothing is stored here: ``interop.transcripts`` drives this.

Imports are left to the modules: ``transcript.open_transcript``, ``detect.detect``, ``items``.
"""
