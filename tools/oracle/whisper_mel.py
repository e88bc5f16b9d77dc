"""Records log-mel features of transformers for tests/audio: whisper_mel.py OUT [SPEECH CLIP...]

The test computes the same sound: noise of a linear congruential generator with a slowly increasing
amplitude and two tones for one second, then half a second of silence. OUT: f32, 150 frames of 80
bands, then 150 frames of 128. SPEECH: f32, for each clip every 16th frame with 80 bands, then with
128.
"""

import sys

import numpy as np
import soundfile
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


def features(samples, bands):
    extractor = WhisperFeatureExtractor(feature_size=bands)
    made = extractor(samples, sampling_rate=16000, padding="longest", truncation=False, return_tensors="np")
    frames = made.input_features[0].T[: len(samples) // 160]
    assert frames.shape == (len(samples) // 160, bands)
    return frames


def write(path, frames):
    with open(path, "wb") as out:
        for part in frames:
            out.write(np.ascontiguousarray(part, np.float32).tobytes())


write(sys.argv[1], [features(sound(), bands) for bands in (80, 128)])
if len(sys.argv) > 2:
    clips = [soundfile.read(clip, dtype="float32")[0] for clip in sys.argv[3:]]
    write(sys.argv[2], [features(clip, bands)[::16] for clip in clips for bands in (80, 128)])
