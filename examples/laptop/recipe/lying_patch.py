"""The script of the founding night: it claims that the patch is there, and changes nothing."""

print("delegation methods already present, nothing to do")
