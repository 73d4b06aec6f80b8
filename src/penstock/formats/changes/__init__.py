"""What the formats of change data share: messages that say which rows came, changed and went."""
