"""Prints the probability of each label after a prompt, using only ctypes: classify.py LIBVEERY.SO MODEL PROMPT LABEL..."""
import ctypes
import sys
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_void_p


class Failure(Exception):
    pass


def open_library(path):
    library = ctypes.CDLL(path)
    library.veery_last_message.restype = c_char_p
    library.veery_model_free.argtypes = [c_void_p]
    library.veery_model_free.restype = None
    calls = {
        "veery_model_load": [c_char_p, c_void_p, c_void_p],
        "veery_classify": [c_void_p, c_char_p, c_size_t, c_void_p, c_size_t, c_void_p, c_void_p],
    }

    def check(status, function, _):
        if status != 0:
            raise Failure(f"{function.__name__}: {library.veery_last_message().decode()}")
        return status

    for name, arguments in calls.items():
        function = getattr(library, name)
        function.argtypes, function.restype, function.errcheck = arguments, c_int, check
    return library


def classify(library, model, prompt, labels):
    texts = (c_char_p * len(labels))(*(label.encode() for label in labels))
    logprobs, probabilities = (c_float * len(labels))(), (c_float * len(labels))()
    data = prompt.encode()
    library.veery_classify(model, data, len(data), texts, len(labels), logprobs, probabilities)
    return list(zip(labels, logprobs, probabilities))


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    library = open_library(sys.argv[1])
    model = c_void_p()
    try:
        library.veery_model_load(sys.argv[2].encode(), None, byref(model))
        for label, logprob, probability in classify(library, model, sys.argv[3], sys.argv[4:]):
            print(f"{probability:.4f}  {logprob:9.3f}  {label}")
    except Failure as failure:
        sys.exit(str(failure))
    finally:
        library.veery_model_free(model)


if __name__ == "__main__":
    main()
