"""Words of a question: numbers, words that carry no condition, and conditions that are known but not answered."""

from __future__ import annotations

_UNITS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"

NUMBERS = {
    **{word: str(value) for value, word in enumerate(_UNITS.split(), 1)},
    **{word: str(value) for value, word in zip(range(20, 100, 10), _TENS.split(), strict=True)},
    "hundred": "100",
    "thousand": "1000",
    "single": "1",
}

_FILLERS = """
    a an the and or plus with for to of on in at from by as into that which who what what's whats how is are be am do
    does can could would should will shall may might i i'd we we'd you us me my our your it its this these those there
    then please hi hello hey thanks thank want wants need needs like get give find show tell recommend suggest choose
    pick buy rent use using run runs running serve serves serving host hosts hosting deploy handle support fit fits hold
    set up setup set-up setups way option options configuration config machine machines server servers instance
    instances hardware gpu gpus card cards cloud provider cheapest cheap best lowest cost costs price priced affordable
    optimal possible model models llm llms inference engine chatbot api app application service request requests
    token tokens length lengths long each context window user users concurrent concurrency only just some about around
    roughly approximately per-request total currently much many budget
"""
FILLERS = frozenset(_FILLERS.split())

_INVERTERS = """
    no not non none nothing without except excluding exclude excluded banned forbidden unwanted avoid never neither nor
    but than instead rather minus other unlike don't dont doesn't can't cannot won't isn't aren't shouldn't over above
    more least min minimum beyond
"""
INVERTERS = frozenset(_INVERTERS.split())
"""Words that may turn round what stands beside them: nothing beside one is kept where it is not understood itself."""

SPEED_LIMIT = "'30 ms per token', 'first token within 1 s' or '20 tokens per second per user'"
EACH_OR_ALL = "'20 tokens per second per user' or '1500 tokens per second in total'"
AT_ONCE = "requests at once, such as '50 concurrent', or a rate, such as '5 requests per second'"
IN_QUOTES = "a price such as '$20/h', the question in single quotes: in double ones a shell replaces $2"
OWN_CARDS = "`hardware:` in a scenario file, such as [{gpu: H100-SXM, gpus_per_instance: 4, count: 4}]"
UPPER_LIMIT = "an upper limit, such as 'under $20/h' or 'at most 4 GPUs'"
HINTS = (
    (r"^fast\b", f"a limit, such as {SPEED_LIMIT}; how fast a set-up is, `recommender speed` says"),
    (r"\b(rps|qps|per second|per minute|a second|a minute|/s|/min|req)\b", AT_ONCE),
    (r"\b(ttft|tpot|itl|latency|fast|fastest|faster|quick|first|throughput|\d*\.?\d+ ?(ms|s|secs?))\b", SPEED_LIMIT),
    (r"\b(ms|milliseconds?|seconds?)\b", SPEED_LIMIT),
    (r"^(under |below |< ?|at most )?(\d*\.?\d*/(h|hr|hour|mo|month)|00+)\b", IN_QUOTES),
    (r"\b(own|have|owned|existing|premises)\b", OWN_CARDS),
    (r"^(?:[-!~\u2260\u274c\u00ac]|!=)|<>", "words, such as 'not on aws'"),
    (r"\b(no|not|without|except|excluding|avoid|never|nor|but)\b", "what is wanted, or 'not on' and a name"),
    (r"[<>]|\b(over|above|more|least|minimum|min)\b", UPPER_LIMIT),
    (r"\d[,_]\d", "a point before decimals, commas between thousands: 1.5 or 1,500"),
    (r"\b(europe|eu|us|usa|asia|germany|france|uk|canada|japan|india)\b", "a region's own name, such as us-east-1"),
    (r"\b(tensorrt|trt|tgi|ollama|llama\.cpp)\b", "an engine that is modelled: vllm, sglang or tensorrt-llm"),
    (r"\b(average|mean|p\d\d|median|percentile|distribution)\b", "`lengths:` in a scenario file"),
    (r"\b(ideally|prefer|preferably|preferred)\b", "a condition that must hold, or none"),
    (r"[\u20ac\u00a3\u00a5]", "US dollars"),
    (r"^v?\d+\.\d+\.?\d*$", "`engine_version:` in a scenario file"),
    (r"\d ?%", "a percentile, such as 'p95 TTFT under 2 s'"),
    (r"\b(day|daily|hours?|weekly|month|months|year|years)\b", "a price such as '$20/h' or '$5000 a month'"),
)
