# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # Intents of an assistant, with out-of-scope questions
#
# An assistant knows a few intents. Questions about anything else must be called *unknown* and not be forced
# into the nearest intent; a new intent is learned from the questions that people ask. Needs `openworld[text]`.

# %%
import numpy as np

from openworld import OpenWorldRecognizer
from openworld.features import load_extractor

examples = {
    "balance": ["what is my balance", "how much money do I have", "show me the balance of my account",
                "how much is left on my account", "tell me my account balance", "what do I have in the bank",
                "is there money on my card", "check my balance please"],
    "transfer": ["send fifty dollars to Ann", "transfer money to my brother", "I want to move money to savings",
                 "please wire 200 to my landlord", "make a transfer to Bob", "move 30 euros to checking",
                 "pay my sister twenty dollars", "send money abroad"],
    "weather": ["will it rain tomorrow", "what is the weather like today", "do I need an umbrella",
                "how warm is it outside", "is it going to snow this week", "weather forecast for Sunday",
                "what is the temperature in Paris", "will the sun shine this afternoon"],
    "music": ["play some jazz", "put on my favorite song", "turn up the music", "play the new album again",
              "skip this song", "I want to hear some Bach", "start my workout playlist", "play something relaxing"],
}  # fmt: skip
texts = [text for group in examples.values() for text in group]
labels = np.repeat(list(examples), [len(group) for group in examples.values()])

extractor = load_extractor(kind="text")
X = extractor.transform(texts)
model = OpenWorldRecognizer().fit(X, labels)

# %% [markdown]
# ## Questions it has not seen
#
# Two belong to known intents, two do not.

# %%
questions = ["how much money is left in my account", "is it going to rain on Sunday",
             "translate good morning into French", "how do I fix a flat tire"]  # fmt: skip
for question, answer in zip(questions, model.predict(extractor.transform(questions)), strict=True):
    print(f"{answer:10} {question}")

# %% [markdown]
# ## How sure is it?
#
# `judge` tells everything about a sample in one pass: the answer, how far it is above or below the threshold
# (`decision`), a score from 0 to 1 (`membership`), and the nearest classes. Memberships are not normalized over
# the classes: for a question about something else they are all small.

# %%
judgement = model.judge(extractor.transform(questions), 2)
for question, decision, membership in zip(questions, judgement.decision, judgement.membership, strict=True):
    print(f"{decision:+.2f}  {membership:.2f}  {question}")

# %% [markdown]
# ## A new intent
#
# A person looks at the unknown questions and names a group of them.

# %%
new = ["translate hello into Spanish", "what does danke mean", "how do you say cheese in French",
       "translate this sentence to German", "what is the Italian word for tree"]  # fmt: skip
model.partial_fit(extractor.transform(new), ["translate"] * len(new))
print(model.predict(extractor.transform(["how do you say good morning in Spanish"])))
