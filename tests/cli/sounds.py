"""Sounds for tests: WAV of 16 bits."""
import random
import struct


def wav(samples, rate=16000, channels=1):
    data = struct.pack(f"<{len(samples)}h", *samples)
    head = struct.pack("<IHHIIHH", 16, 1, channels, rate, rate * channels * 2, channels * 2, 16)
    return b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + head + b"data" + struct.pack("<I", len(data)) + data


def noise(seconds, rate=16000):
    source = random.Random(5)
    return wav([int(source.gauss(0, 3000)) for _ in range(int(rate * seconds))], rate)
