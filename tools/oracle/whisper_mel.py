"""Log-mel features of transformers for tests/audio: whisper_mel.py OUT

The sound is made by a formula that the test has too: noise of a linear congruential generator under a slow swell, and
two tones, one second, then half a second of silence. OUT: f32, 150 frames of 80 bands, then 150 frames of 128.
"""

import sys

import numpy as np
from transformers import WhisperFeatureExtractor


def sound():
    state, samples = 12345, []
    for i in range(24000):
        state = (state * 1103515245 + 12345) % 2**31
        noise = (state >> 16) / 16384 - 1
        swell = (i % 8000) / 8000
        tones = np.sin(2 * np.pi * 440 * i / 16000) + 0.01 * np.sin(2 * np.pi * 5000 * i / 16000)
        samples.append(0.1 * noise * swell + 0.3 * tones if i < 16000 else 0)
    return np.array(samples, np.float32)


with open(sys.argv[1], "wb") as out:
    for bands in (80, 128):
        extractor = WhisperFeatureExtractor(feature_size=bands)
        features = extractor(sound(), sampling_rate=16000, padding="longest", return_tensors="np")
        frames = features.input_features[0].T
        assert frames.shape == (150, bands)
        out.write(np.ascontiguousarray(frames, np.float32).tobytes())
