"""The other systems, one file each, under the same contract as ours, written from their papers' equations."""
