"""Events, labels and annotations as a table of NumPy."""
import numpy


class Events(numpy.recarray):
    """Rows with onset and duration in seconds of file time, eventType, and confidence (NaN: not stated; a duration too).
    pandas.DataFrame(events) has the same columns."""

    @classmethod
    def of(cls, rows):
        rows = list(rows)
        kind = f"U{max((len(r[2]) for r in rows), default=8)}"
        return numpy.array(rows, dtype=[("onset", "f8"), ("duration", "f8"), ("eventType", kind), ("confidence", "f8")]).view(cls)

    def annotations(self):
        """The same as mne.Annotations, for raw.set_annotations."""
        import mne
        return mne.Annotations(self.onset, numpy.nan_to_num(self.duration), self.eventType.tolist())
