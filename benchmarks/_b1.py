import os, sys, tempfile

sys.path.insert(0, "/tmp")
import numpy as np
import benchmarks.speed.service as b
from openworld import load as load_model


def run(pipe, model, folder, switch):
    import quick, openworld.service.recognition as r

    r.judge = quick.judge
    if switch:
        sys.setswitchinterval(switch)
    b._run_service(pipe, model, folder)


if __name__ == "__main__":
    X = b._samples(b._centres(1000, 0), 12, 1, 0.7)
    some = X[np.random.default_rng(3).permutation(len(X))[:1024]]
    model = load_model("/tmp/bench.ow")
    known = model.predict(some) != model.unknown_label_
    print("known", known.mean())
    some = np.resize(some[known], some.shape)
    for switch in [float(a) for a in sys.argv[1:]]:
        print("switch", switch)
        with tempfile.TemporaryDirectory() as folder:
            with b._server(b._run_bare) as bare, b._server(run, "/tmp/bench.ow", folder, switch) as service:
                b._one_vector(bare, service, some, 10)
                b._batches(service, model, some, 10)
