"""The command `nvfp4-moe`: one file a command, loaded when it is called."""
