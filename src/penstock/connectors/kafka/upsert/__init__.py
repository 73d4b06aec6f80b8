"""The connector ``upsert-kafka``: tables over topics whose messages replace and delete rows by key."""
