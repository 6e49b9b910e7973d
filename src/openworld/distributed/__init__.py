"""Learning and recognizing over parts of a stream: in this process, or on the machines of a Dask cluster.

Each part is read and processed by one worker, and the results are summed in a fixed order, so they are the
same on one machine and on many.
"""

from openworld.distributed.answering import Answers, recognize
from openworld.distributed.checkpoint import Checkpoint
from openworld.distributed.cluster import connect
from openworld.distributed.engine import LOCAL, Engine, PartError
from openworld.distributed.features import write_features
from openworld.distributed.learning import Learned, class_statistics, fit, learn, takes_groups
from openworld.distributed.metrics import fit_metric
from openworld.distributed.sampling import sample_of

__all__ = [
    "LOCAL",
    "Answers",
    "Checkpoint",
    "Engine",
    "Learned",
    "PartError",
    "class_statistics",
    "connect",
    "fit",
    "fit_metric",
    "learn",
    "recognize",
    "sample_of",
    "takes_groups",
    "write_features",
]
