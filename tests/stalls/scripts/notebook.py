#!/usr/bin/env python

# # A notebook, exported

# In[1]:


get_ipython().run_line_magic("matplotlib", "inline")
get_ipython().system("pip install nothing-at-all")
import torch

# In[2]:


x = torch.linspace(0, 1, 8, device="cuda")
weight = torch.zeros(1, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.5)


# In[3]:


get_ipython().run_cell_magic("time", "", "for step in range(3):\n    optimizer.zero_grad()\n    (weight * x - 2 * x).square().mean().backward()\n    optimizer.step()\n")


# In[4]:


for step in range(3):
    optimizer.zero_grad()
    loss = (weight * x - 2 * x).square().mean()
    loss.backward()
    optimizer.step()
    display(loss.item())  # expect: read=3


# In[5]:


weight  # a last expression shows nothing in a script
