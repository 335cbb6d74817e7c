"""Trains a language model of transformers' from scratch on random tokens.

usage: language.py MODEL [--layers N] [--width N] [--batch N] [--sequence N] [--iterations N] [--amp bf16|fp16] [--accumulate N]
                   [--clip] [--checkpoint] [--lora] [--attention NAME] [--generate N] [--validate N] [--compile MODE]

MODEL: gpt2, llama or t5.
"""

import argparse

import torch
import transformers

VOCABULARY = 32000


def make_model(o):
    heads = o.width // 64
    if o.model == "gpt2":
        config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=o.sequence, n_embd=o.width, n_layer=o.layers, n_head=heads)
        return transformers.GPT2LMHeadModel._from_config(config, attn_implementation=o.attention)
    if o.model == "llama":
        config = transformers.LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=o.width, intermediate_size=o.width * 11 // 4, num_hidden_layers=o.layers,
            num_attention_heads=heads, num_key_value_heads=heads // 4, max_position_embeddings=o.sequence)
        return transformers.LlamaForCausalLM._from_config(config, attn_implementation=o.attention)
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=o.width, d_ff=4 * o.width, num_layers=o.layers, num_heads=heads, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


def options():
    parser = argparse.ArgumentParser(description="Trains a language model on random tokens.")
    parser.add_argument("model", choices=("gpt2", "llama", "t5"))
    numbers = {"layers": 12, "width": 768, "batch": 8, "sequence": 512, "iterations": 10, "accumulate": 1, "generate": 0, "validate": 0}
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--amp", choices=("bf16", "fp16"))
    parser.add_argument("--clip", action="store_true", help="limit the gradients' norm")
    parser.add_argument("--checkpoint", action="store_true", help="compute each layer again for its gradients")
    parser.add_argument("--lora", action="store_true", help="train adapters of peft's alone")
    parser.add_argument("--attention", default="sdpa", choices=("sdpa", "eager"))
    parser.add_argument("--compile", help="let torch.compile make the kernels, in this mode")
    return parser.parse_args()


def tokens_of(o, iteration):
    values = torch.arange(o.batch * o.sequence).mul(7919).add(iteration).remainder(VOCABULARY)
    return values.view(o.batch, o.sequence).to("cuda")


def generate(model, o):
    model.eval()
    with torch.inference_mode():
        for iteration in range(o.iterations):
            prompt = tokens_of(o, iteration)[:, : o.sequence - o.generate]
            made = model.generate(prompt, max_new_tokens=o.generate, min_new_tokens=o.generate, do_sample=False, pad_token_id=0)
            print(f"iteration {iteration + 1}: {made.shape[1]} tokens", flush=True)


def train(model, o):
    step_model = torch.compile(model, mode=o.compile) if o.compile else model
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=3e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=o.amp == "fp16")
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(o.amp)
    model.train()
    for iteration in range(o.iterations):
        for part in range(o.accumulate):
            tokens = tokens_of(o, iteration * o.accumulate + part)
            with torch.autocast("cuda", kind, enabled=kind is not None):
                loss = step_model(input_ids=tokens, labels=tokens).loss
            scaler.scale(loss / o.accumulate).backward()
        if o.clip:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if iteration % 10 == 9:
            print(f"iteration {iteration + 1}: loss {loss.item():.6g}", flush=True)
        if o.validate and iteration % o.validate == o.validate - 1:
            model.eval()
            with torch.no_grad():
                losses = [step_model(input_ids=tokens_of(o, n), labels=tokens_of(o, n)).loss for n in range(4)]
            print(f"validation: loss {sum(loss.item() for loss in losses) / 4:.6g}", flush=True)
            model.train()


def main():
    o = options()
    torch.manual_seed(0)
    model = make_model(o).to("cuda")
    if o.lora:
        import peft

        names = {"gpt2": ["c_attn", "c_proj"], "llama": ["q_proj", "v_proj"], "t5": ["q", "v"]}[o.model]
        model = peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, target_modules=names))
    if o.checkpoint:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.config.use_cache = False
    generate(model, o) if o.generate else train(model, o)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
