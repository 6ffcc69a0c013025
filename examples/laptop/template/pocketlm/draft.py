"""A draft head for speculation: it shares embedding and head with the model that it drafts for."""


class Draft:
    def __init__(self, model):
        # The wrapper must hand these through from the model that it wraps.
        self.embed, self.head = model.get_embed_and_head()
        model.set_draft_layers_to_capture([1, 3])
        model.set_embed_and_head(self.embed, self.head)
