"""Two streams that are worked on together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from penstock.common import TypeInformation, Types
from penstock.datastream.function_steps import Step
from penstock.datastream.functions import CoFlatMapFunction, CoMapFunction, CoProcessFunction
from penstock.datastream.refusals import refused
from penstock.datastream.transformations import FunctionStep
from penstock.errors import Problem, UnsupportedError

if TYPE_CHECKING:
    from penstock.datastream.data_stream import DataStream


class ConnectedStreams:
    """Two streams that a function, with a method for each, combines into one. In Flink both methods are called on one
    object in each task; here an object sees the values of one of the two."""

    def __init__(self, stream1: DataStream, stream2: DataStream):
        self.stream1 = stream1
        self.stream2 = stream2

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Each value changed by ``map1`` or ``map2``."""
        return self._call("map", func, "map", "Co-Map", output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Each value turned into any number of values by ``flat_map1`` or ``flat_map2``."""
        return self._call("flat_map", func, "flat_map", "Co-Flat Map", output_type)

    def process(self, func: CoProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Each value turned into any number of values by ``process_element1`` or ``process_element2``."""
        return self._call("process", func, "process_element", "CO-PROCESS", output_type)

    def key_by(self, key_selector1: Any, key_selector2: Any, key_type: TypeInformation | None = None) -> NoReturn:
        """Raises UnsupportedError: keyed streams are not supported yet."""
        refused("key_by")

    def _call(self, kind: str, func: Any, method: str, name: str, output_type: TypeInformation | None) -> DataStream:
        made = output_type or Types.PICKLED_BYTE_ARRAY()
        for each in ("1", "2"):
            if not callable(getattr(func, method + each, None)):
                hint = f"give it the methods {method}1 and {method}2"
                raise UnsupportedError((Problem(f"{type(func).__name__} cannot be called by {kind}", hint=hint),))
        steps = tuple(Step(kind, func, made, f"{method}{each}", name) for each in (1, 2))
        inputs = (self.stream1._step, self.stream2._step)
        return self.stream1._then(FunctionStep(name=name, info=made, inputs=inputs, steps=steps))
