"""dump_model_info: a model's report in Markdown, its naive and efficient figures and the physical ones beside them.

The figures come from `account`, under the settings of `rules`; FLOPs, bytes and times without its rules from the
library itself.
"""

from roofline.compat.model_info.dump import CSV_HEADER, dump_model_info

__all__ = ["CSV_HEADER", "dump_model_info"]
