import numpy as np
import pytest

from recommender.errors import InputError
from recommender.workload.files import metrics_lengths
from recommender.workload.forms import lengths_from_form
from recommender.workload.lengths import total_quantile
from recommender.workload.prometheus import lengths_from_metrics, samples_of, tokens_per_request

EDGES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]


def histogram(name, lengths, labels='model_name="m",engine="0"', edges=EDGES):
    lengths = np.asarray(lengths)
    lines = [f"# HELP {name} tokens", f"# TYPE {name} histogram"]
    lines += [f'{name}_bucket{{le="{edge}.0",{labels}}} {float((lengths <= edge).sum())}' for edge in edges]
    lines.append(f'{name}_bucket{{le="+Inf",{labels}}} {float(len(lengths))}')
    lines += [f"{name}_sum{{{labels}}} {float(lengths.sum())}", f"{name}_count{{{labels}}} {float(len(lengths))}"]
    return "\n".join(lines) + "\n"


def exposition(prompts, outputs, labels='model_name="m",engine="0"'):
    prompt = histogram("vllm:request_prompt_tokens", prompts, labels)
    return prompt + histogram("vllm:request_generation_tokens", outputs, labels)


def read(text, **options):
    return lengths_from_metrics(samples_of(text), **options)


def means(lengths):
    table = np.array([(cell.weight, cell.input_tokens, cell.output_tokens) for cell in lengths.cells])
    return table[:, 0] @ table[:, 1:] / table[:, 0].sum()


@pytest.fixture(scope="module")
def requests():
    random = np.random.default_rng(5)
    prompts = np.clip(random.lognormal(6, 1, 4000), 1, 9000).astype(int)
    return prompts, np.clip(random.lognormal(5, 0.8, 4000), 1, 4000).astype(int)


def test_means_are_exact_and_quantiles_near(requests):
    prompts, outputs = requests
    lengths = read(exposition(prompts, outputs))
    assert means(lengths) == pytest.approx([prompts.mean(), outputs.mean()], rel=0.002)
    assert lengths.maximum_tokens == 10_000 + 5_000
    assert total_quantile(lengths, 0.9) == pytest.approx(np.quantile(prompts + outputs, 0.9), rel=0.06)
    assert any("independent" in note for note in lengths.notes)


def test_engines_are_added_and_an_earlier_scrape_is_taken_off(requests):
    prompts, outputs = requests
    half = exposition(prompts[:2000], outputs[:2000]) + exposition(
        prompts[2000:], outputs[2000:], 'model_name="m",engine="1"'
    )
    whole = read(exposition(prompts, outputs))
    assert read(half) == whole
    then = exposition(prompts[:1000], outputs[:1000])
    since = read(exposition(prompts, outputs), before=samples_of(then))
    assert since == read(exposition(prompts[1000:], outputs[1000:]))


def test_requests_beyond_the_last_bucket_need_a_bound(requests):
    text = exposition([100, 200, 12_000], [10, 20, 30])
    with pytest.raises(InputError, match="1 requests lie beyond the last bucket"):
        read(text)
    assert read(text, longest=16_384).maximum_tokens == 16_384


def test_max_model_len_bounds_the_longest_request(requests):
    prompts, outputs = requests
    lengths = read(exposition(prompts, outputs), longest=9_500)
    assert lengths.maximum_tokens == 9_500
    with pytest.raises(InputError, match="longer than max_model_len 400"):
        read(exposition(prompts, outputs), longest=400)


def test_several_models_are_asked_about(requests):
    prompts, outputs = requests
    text = exposition(prompts, outputs) + exposition([5], [5], 'model_name="n",engine="0"')
    with pytest.raises(InputError, match=r"several models.*m or n"):
        read(text)
    assert read(text, model_name="m").cells == read(exposition(prompts, outputs)).cells
    with pytest.raises(InputError, match="no model 'o'"):
        read(text, model_name="o")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no Prometheus samples"),
        ("hello world here\n", "no Prometheus samples"),
        ("vllm:num_requests_running 3\n", "prompt_tokens: the histogram is missing"),
        (exposition([0] * 0, [0] * 0), "no request was counted"),
    ],
)
def test_what_is_missing_is_named(text, message):
    with pytest.raises(InputError, match=message):
        read(text)


def test_a_restart_between_scrapes_is_refused(requests):
    prompts, outputs = requests
    with pytest.raises(InputError, match="restarted"):
        read(exposition(prompts[:100], outputs[:100]), before=samples_of(exposition(prompts, outputs)))


RUNNING = """vllm:num_requests_running{engine="0",model_name="m"} 40.0
vllm:num_requests_running{engine="1",model_name="m"} 60.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.7
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="10000"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="10000"} 1.0
"""


def test_the_server_measures_what_a_request_holds():
    assert tokens_per_request(samples_of(RUNNING)) == pytest.approx(1.2 * 160_000 / 100)
    assert tokens_per_request(samples_of(RUNNING.replace("kv_cache", "gpu_cache"))) == pytest.approx(1920)
    assert tokens_per_request(samples_of(RUNNING.replace(" 40.0", " 0").replace(" 60.0", " 0"))) is None
    with pytest.raises(InputError, match="cache_config_info"):
        tokens_per_request(samples_of("\n".join(RUNNING.splitlines()[:4])))


def test_what_the_server_holds_now_is_said(requests):
    histograms = exposition(*requests)
    assert not any("when scraped" in note for note in read(histograms).notes)
    said = [note for note in read(histograms + RUNNING).notes if "when scraped" in note]
    assert [note.split(", prefix")[0] for note in said] == [
        "when scraped, the server held 1,920 KV-cache tokens a running request"
    ]
    idle = RUNNING.replace(" 40.0", " 0").replace(" 60.0", " 0")
    assert not any("when scraped" in note for note in read(histograms + idle).notes)


def test_a_scenario_reads_scrapes(tmp_path, requests):
    prompts, outputs = requests
    (tmp_path / "now.prom").write_text(exposition(prompts, outputs))
    (tmp_path / "then.prom").write_text(exposition(prompts[:1000], outputs[:1000]))
    form = {"prometheus": {"path": "now.prom", "before": "then.prom", "model_name": "m"}}
    read_back = lengths_from_form(form, tmp_path)
    assert read_back == metrics_lengths(tmp_path / "now.prom", before=tmp_path / "then.prom", model_name="m")
    with pytest.raises(InputError, match=r"lengths\.prometheus.*model_name: no model 'x'"):
        lengths_from_form({"prometheus": {"path": "now.prom", "model_name": "x"}}, tmp_path)
